"""LayerNorm, alone or followed by GELU, in CUDA C++: a block for each row, the row in registers.

A careful programmer's first version: loads of float4, warp sums by shuffles, two barriers (mean,
then variance), the library's erf. For rows of float32 whose length is a multiple of 4.
"""

SOURCE = r"""
__device__ float block_sum(float value, float* shared) {
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(0xffffffff, value, offset);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __syncthreads();  // the last sum has been read
    if (lane == 0) shared[warp] = value;
    __syncthreads();
    float total = 0.0f;
    for (int w = 0; w < blockDim.x / 32; ++w) total += shared[w];
    return total;
}

__device__ float finish(float value) {
#if GELU
    return 0.5f * value * (1.0f + erff(value * 0.70710678f));
#else
    return value;
#endif
}

extern "C" __global__ void layer_norm(const float4* x, const float4* gamma, const float4* beta,
                                      float eps, float4* out, int columns) {
    __shared__ float shared[32];
    float4 values[PARTS];
    int fours = columns / 4;
    size_t start = (size_t)blockIdx.x * fours;
    float total = 0.0f;
#pragma unroll
    for (int p = 0; p < PARTS; ++p) {
        int place = p * blockDim.x + threadIdx.x;
        values[p] = place < fours ? x[start + place] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        total += (values[p].x + values[p].y) + (values[p].z + values[p].w);
    }
    float mean = block_sum(total, shared) / columns;
    float squares = 0.0f;
#pragma unroll
    for (int p = 0; p < PARTS; ++p) {
        if (p * blockDim.x + threadIdx.x < fours) {
            float a = values[p].x - mean, b = values[p].y - mean;
            float c = values[p].z - mean, d = values[p].w - mean;
            squares += (a * a + b * b) + (c * c + d * d);
        }
    }
    float scale = rsqrtf(block_sum(squares, shared) / columns + eps);
#pragma unroll
    for (int p = 0; p < PARTS; ++p) {
        int place = p * blockDim.x + threadIdx.x;
        if (place < fours) {
            float4 g = gamma[place], b = beta[place], v = values[p];
            out[start + place] = make_float4(finish((v.x - mean) * scale * g.x + b.x),
                                             finish((v.y - mean) * scale * g.y + b.y),
                                             finish((v.z - mean) * scale * g.z + b.z),
                                             finish((v.w - mean) * scale * g.w + b.w));
        }
    }
}
"""
MOST_PARTS = 16  # float4 that a thread holds


def launch_shape(columns: int) -> tuple[int, int] | None:
    """Threads of a block, and float4 of a thread; None for rows that the kernel does not take."""
    if columns % 4:
        return None
    fours = columns // 4
    threads = min(1024, max(32, -(-fours // 64) * 32))  # two float4 a thread, up to 1,024 threads
    parts = -(-fours // threads)
    return (threads, parts) if parts <= MOST_PARTS else None


def options(parts: int, gelu: bool) -> tuple[str, ...]:
    """The options with which the source is compiled."""
    return f"-DPARTS={parts}", f"-DGELU={int(gelu)}"
