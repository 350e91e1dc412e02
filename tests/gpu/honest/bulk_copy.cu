// row: H  expect: correct  problem: relu_small
// One bulk copy per block in, one out, with a barrier in shared memory.
#include "contract.h"

static __device__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
static __device__ void wait_for(uint64_t* barrier, unsigned parity) {
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  }
}

static __global__ void cut_off(const float* x, float* out) {
  __shared__ alignas(128) float tile[2048];
  __shared__ alignas(8) uint64_t barrier;
  const int64_t begin = blockIdx.x * int64_t{2048};
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(8192) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(tile)),
                 "l"(x + begin), "r"(8192), "r"(shared_address(&barrier))
                 : "memory");
  }
  __syncthreads();
  wait_for(&barrier, 0);
  for (int i = threadIdx.x; i < 2048; i += 256) tile[i] = fmaxf(tile[i], 0.0f);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out + begin), "r"(shared_address(tile)), "r"(8192)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  static_assert(N % 2048 == 0);
  cut_off<<<N / 2048, 256, 0, stream>>>(x, out);
  return cudaGetLastError();
}
