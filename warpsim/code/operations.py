"""What lane programs may call: the operations of the running threads, by the part that does them.

A part is an attribute of :class:`warpsim.run.threads.Threads`; a test holds that to this table.
"""

#: Operations by part. What is CUDA's own has its name there, with ``_`` for dots.
PARTS: dict[str, str] = {
    "T": "call again",
    "geometry": "grid gridsize laneid threadIdx_x threadIdx_y threadIdx_z blockIdx_x blockIdx_y "
    "blockIdx_z blockDim_x blockDim_y blockDim_z gridDim_x gridDim_y gridDim_z",
    "state": "mask",
    "control": "split join both either choose pick element assign unsigned frame give leave loop "
    "stop unbroken skip head test end range lane_range each",
    "observer": "count counted compare compare_tuples given maybe now_set print syncwarp "
    "threadfence threadfence_block threadfence_system",
    "memory": "load store view captured shared_array local_array",
    "elements": "field component reshape view_as copied store_all store_record address_of array_at "
    "indices unravel enumerated numbered items unpack",
    "whole_arrays": "total reduced ufunc",
    "atomics": "atomic",
    "exceptions": "require divisor some",
    "exchange": "syncthreads syncthreads_count syncthreads_and syncthreads_or grid_sync nanosleep "
    "shfl_sync shfl_up_sync shfl_down_sync shfl_xor_sync activemask lanemask_lt ballot_sync "
    "any_sync all_sync eq_sync match_any_sync match_all_sync",
}
#: The part of each operation; any other is an instruction's, of :mod:`warpsim.ptx`.
OPERATIONS = {name: part for part, names in PARTS.items() for name in names.split()}
