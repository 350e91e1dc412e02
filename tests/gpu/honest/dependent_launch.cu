// row: H  expect: correct  problem: relu_small
// The second kernel may start before the first has ended, and waits for it where it must.
#include "contract.h"

extern "C" size_t relu_small_workspace() { return N * sizeof(float); }


static __global__ void first(const float* x, float* kept) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < N) kept[i] = fmaxf(x[i], 0.0f);
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
static __global__ void second(const float* kept, float* out) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (i < N) out[i] = kept[i];
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  float* kept = static_cast<float*>(workspace);
  first<<<(N + 255) / 256, 256, 0, stream>>>(x, kept);
  cudaLaunchAttribute overlap;
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3((N + 255) / 256);
  launch.blockDim = dim3(256);
  launch.stream = stream;
  launch.attrs = &overlap;
  launch.numAttrs = 1;
  return cudaLaunchKernelEx(&launch, second, static_cast<const float*>(kept), out);
}
