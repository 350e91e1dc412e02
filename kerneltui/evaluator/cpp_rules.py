"""Headers and names of C++ and CUDA that candidates are told about: (pattern of the whole word, reason)."""

from __future__ import annotations

import re

REFUSED_HEADERS = (
    (r"(torch|ATen|c10|caffe2|pybind11)/.*|Python\.h", "no framework headers: the contract needs plain C++ only"),
    (r"p?threads?(\.h)?|jthread|future|stop_token|barrier|latch|semaphore(\.h)?|threads\.h", "no threads of your own"),
    (r"dlfcn\.h|link\.h|elf\.h|gnu/lib-names\.h", "no loading of other libraries"),
    (r"sys/(?!types\.h|cdefs\.h).*|unistd\.h|fcntl\.h|spawn\.h|sched\.h|poll\.h|ucontext\.h", "no system calls"),
    (r"c?signal(\.h)?|c?setjmp(\.h)?", "no signal handlers"),
    (r"fstream|filesystem|experimental/filesystem|dirent\.h|ftw\.h|glob\.h|aio\.h", "no files"),
    (r"(net|netinet|arpa|linux|asm|rpc)/.*|netdb\.h|ifaddrs\.h", "no network, no kernel interfaces"),
    (r"cuda_profiler_api\.h|cupti.*|nvml\.h|nvrtc\.h|nvJitLink\.h|cudaEGL.*|cuda_egl.*", "no other CUDA services"),
)
LIBRARY_HEADERS = re.compile(
    r"(cublas|cublasLt|cublas_v2|cudnn|cusparse|cufft|cufftw|curand|cusolver|nvblas|cblas|mkl|dnnl|oneapi|Eigen)\b.*|"
    r"cutlass/(gemm|conv|reduction)/device/.*|thrust/(?!complex).*"
)
NOTED_HEADERS = (
    (r"iostream|cstdio|stdio\.h|print", "output to the screen is thrown away"),
    (r"c?time(\.h)?|chrono", "the clock is the judge's"),
    (r"mutex|shared_mutex|condition_variable", "locks have no use in one call"),
)
# Refused wherever the name stands.
REFUSED_NAMES = (
    (r"popen|pclose|vfork|posix_spawnp?|exec[lv]p?e?|execvpe|fexecve|clone3", "starts programs"),
    (
        r"dlopen|dlmopen|dlv?sym|dladdr1?|dl_iterate_phdr|dlinfo|_dl_\w+|_r_debug|__libc_\w+",
        "reaches into other libraries",
    ),
    (r"ptrace|process_vm_(readv|writev)|prctl|seccomp|personality|unshare|setns", "reaches into other processes"),
    (r"mprotect|mremap|pkey_\w+|memfd_create|shm_open|shmget|shmat|userfaultfd", "changes the memory of the process"),
    (r"pthread_\w+|thrd_create|__kmpc_fork_\w+", "starts threads"),
    (r"sigaction|sigaltstack|setitimer|timer_create|siglongjmp|sigsetjmp", "handles signals"),
    (r"fopen(64)?|freopen|fdopen|tmpfile|mkstemp|openat2?|opendir", "opens files"),
    (r"setenv|putenv|unsetenv|clearenv|__environ|secure_getenv|program_invocation_name", "reads its surroundings"),
    (
        r"clock_gettime|gettimeofday|timespec_get|omp_get_wtime|omp_get_wtick|nanosleep|usleep|sleep_(for|until)",
        "uses a clock",
    ),
    (r"__rdtscp?|_rdtsc|__builtin_ia32_rdtscp?|__builtin_ia32_rdpmc|_rdpmc", "uses a clock"),
    (r"atexit|at_quick_exit|on_exit|__cxa_atexit|__cxa_thread_atexit\w*", "leaves code to be run later"),
    (
        r"cu(da)?Stream(Create\w*|Destroy\w*|BeginCapture\w*|EndCapture\w*|UpdateCaptureDependencies\w*)",
        "makes streams of its own",
    ),
    (r"cudaStreamPerThread|cudaStreamLegacy|CU_STREAM_(LEGACY|PER_THREAD)", "launch on the stream you were given"),
    (
        r"cu(da)?Stream(SetAttribute|CopyAttributes|AddCallback|AttachMemAsync|WaitValue\w*|WriteValue\w*|BatchMemOp\w*)",
        "changes its stream",
    ),
    (r"cu(da)?Graph[A-Z]\w*", "makes graphs of its own"),
    (r"cu(da)?Event(Create\w*|Record\w*|ElapsedTime\w*|Synchronize|Query)", "makes events of its own"),
    (r"cu(da)?(LaunchHostFunc\w*|LaunchHostFn)", "runs host code behind kernels"),
    (
        r"cudaDevice(SetLimit|Reset|SetCacheConfig|SetMemPool)|cuCtx[A-Z]\w*|cudaCtxResetPersistingL2Cache|cuDevicePrimaryCtx\w*",
        "changes the state of the device",
    ),
    (
        r"cudaInitDevice|cudaSetDeviceFlags|cudaDeviceEnablePeerAccess|cudaSetValidDevices",
        "changes the state of the device",
    ),
    (
        r"cu(da)?Ipc[A-Z]\w*|cuMem(Export|Import|Map|Create|SetAccess|Unmap)\w*|cu(da)?ImportExternal\w*",
        "reaches memory that is not lent",
    ),
    (r"cu(da)?PointerGetAttributes?|cuMemGetAddressRange\w*", "asks about memory that is not its own"),
    (
        r"cuLink\w+|cuModule\w+|cuLibrary\w+|cudaLibrary\w+|nvrtc\w+|cupti\w+|cuGetProcAddress\w*|nvml\w+",
        "loads code at run time",
    ),
    (r"cudaProfiler(Start|Stop)", "uses the profiler"),
)
# Refused where it is called, declared or defined in a macro: `name(`.
REFUSED_CALLS = (
    (r"system|fork|daemon|clone", "starts programs"),
    (r"syscall|mmap|mmap64|munmap|brk|sbrk|kill|tgkill", "calls the system"),
    (r"socket|sendto|recvfrom|getaddrinfo", "uses the network"),
    (r"signal|alarm|raise", "handles signals"),
    (r"unlink|rename|truncate", "changes files"),
    (r"getenv", "reads its surroundings"),
    (r"exit|_exit|_Exit|quick_exit", "ends the process"),
)
STD_MEMBERS = (
    (r"thread|jthread|async|packaged_task|promise|this_thread", "starts threads"),
    (r"chrono", "uses a clock"),
    (r"filesystem|ifstream|ofstream|fstream", "opens files"),
)
NOTED_NAMES = (
    (r"clock|clock64|__nanosleep|globaltimer", "reads a clock on the device"),
    (
        r"cudaMalloc|cudaFree|cudaMallocManaged|cudaMallocHost|cudaHostAlloc|cudaMallocPitch",
        "allocates in the call: use the workspace",
    ),
    (r"cudaDeviceSynchronize|cudaStreamSynchronize|cudaThreadSynchronize", "waits in the call: it cannot be captured"),
    (
        r"cudaMemcpy|cudaMemset|cudaMemcpyToSymbol|cudaMemcpyFromSymbol|cudaMemcpy2D",
        "works on the default stream: use the Async form",
    ),
    (r"cudaSetDevice", "the device is set already"),
    (r"cudaAccessPropertyPersisting|CU_ACCESS_PROPERTY_PERSISTING", "keeps lines in L2"),
    (
        r"omp_set_num_threads|num_threads|omp_set_dynamic",
        "sets its number of threads: both sides are timed with the same",
    ),
)
LIBRARY_NAMES = (
    (
        r"(cublas|cublasLt|cudnn|cusparse|cufft|cusolver|curandGenerat|cblas_|mkl_|dnnl)\w*",
        "this session wants kernels, not library calls",
    ),
)
RULES = {
    "names": REFUSED_NAMES,
    "calls": REFUSED_CALLS,
    "std": STD_MEMBERS,
    "library": LIBRARY_NAMES,
    "noted": NOTED_NAMES,
}
