"""Who may import whom, by places: a folder, or a file in `test_arrows.FILES_ARE_PLACES`."""

#: What each place may import besides itself; of "+place" also what that one may.
ALLOWED = {
    "warpsim/core": "",
    "warpsim/front": "warpsim/core",
    "warpsim/host": "warpsim/front warpsim/core",
    "warpsim/watch": "warpsim/front warpsim/core",
    "warpsim/draw": "warpsim/watch warpsim/front warpsim/core",
    "warpsim/ptx": "warpsim/host warpsim/watch warpsim/front warpsim/core",
    "warpsim/code": "warpsim/ptx warpsim/watch warpsim/front warpsim/core",
    "warpsim/run": "warpsim/code warpsim/ptx +warpsim/draw warpsim/host",
    "warpsim": "+warpsim/run",
    "course/files": "",
    "course/old_names": "",
    "course/lazy": "course/old_names",
    "course/colab": "",
    "course/stopping": "",
    "course": "course/lazy course/old_names warpsim",
    "course/driver": "warpsim/host",
    "course/successor": "warpsim/core warpsim/ptx",
    "course/kernel_cache": "course/files course/successor warpsim/core warpsim/ptx",
    "course/backend": "course/colab course/driver course/kernel_cache course/successor "
    "warpsim/host",
    "course/installed": "course/backend course/colab",
    "course/dispatch": "+course/backend course/kernel_cache warpsim/host warpsim/ptx",
    "course/heuristics": "+course/backend",
    "course/kernels": "",
    "course/kernels/warps": "+course/dispatch course/heuristics",
    "course/kernels/arrays": "course/kernels/steps +course/dispatch",
    "course/kernels/steps": "+course/dispatch course/heuristics",
    "course/kernels/activation": "+course/kernels/warps course/kernels/arrays course/kernels/steps",
    "course/kernels/reduce": "+course/kernels/warps course/kernels/arrays course/kernels/steps",
    "course/kernels/transpose": "+course/kernels/warps course/kernels/arrays course/kernels/steps",
    "course/kernels/softmax": "+course/kernels/activation",
    "course/kernels/norm": "+course/kernels/activation",
    "course/kernels/gemm": "+course/kernels/activation",
    "course/kernels/attention": "+course/kernels/gemm course/kernels/softmax",
    "course/kernels/reconstruct": "+course/kernels/gemm",
    "course/kernels/svd": "+course/kernels/gemm",
    "course/torch": "+course/kernels/norm course/kernels/softmax course/kernels/reconstruct",
    "course/images": "course/files course/lazy",
    "course/measure": "+course/dispatch course course/files course/lazy warpsim +warpsim/run",
    "course/plots": "course/measure course/lazy warpsim/draw",
    "course/compiler": "+course/measure course/installed",
    "course/checks": "+course/measure",
    "course/diagnosis": "+course/compiler",
    "course/__main__": "course/stopping",
    "course_models": "course/files",
    "course_models/common": "course/files",
    "course_models/digits": "course_models course/files course/old_names",
    "course_models/patches": "+course/kernels/gemm",
    "course_models/training": "+course/kernels/reduce",
    "course_models/spectral": "+course/kernels/activation course_models course_models/common "
    "course/files course/old_names",
    "course_models/vae": "+course/kernels/gemm course_models/training course_models/digits "
    "course_models course/files",
    "course_models/vit": "+course/kernels/gemm course/kernels/norm course/kernels/attention "
    "course_models/patches course_models course_models/common course/installed course/files "
    "warpsim",
    "course_app/kernels": "+course/kernels/warps course/kernels/arrays course/kernels/steps",
    "course_app/pipeline": "course_app/kernels +course/kernels/reconstruct course/kernels/svd "
    "course course/images course/files course/lazy course/stopping warpsim",
    "course_app/cluster": "course_app/pipeline +course_app/pipeline course/installed",
    "course_app/commands": "course_app/cluster +course_app/cluster course_models/vae course/plots",
}
#: Packages, from below; a place that is not in `ALLOWED` may import its own and those before it.
PACKAGES = ("warpsim", "course", "course_models", "course_app", "course_lessons",
            "course_recording", "tools")  # fmt: skip
