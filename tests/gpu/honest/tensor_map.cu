// row: H  expect: correct  problem: relu_small
// Tiles by the tensor memory accelerator; the driver is asked for the one function that describes them.
#include <cuda.h>

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

constexpr int kTileRows = 16, kTileColumns = 64;

static __global__ void cut_off(const __grid_constant__ CUtensorMap map, float* out) {
  __shared__ alignas(128) float tile[kTileRows * kTileColumns];
  __shared__ alignas(8) uint64_t barrier;
  const int column = blockIdx.x * kTileColumns, row = blockIdx.y * kTileRows;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
                 "r"(int(sizeof tile))
                 : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                     shared_address(tile)),
                 "l"(&map), "r"(column), "r"(row), "r"(shared_address(&barrier))
                 : "memory");
  }
  __syncthreads();
  wait_for(&barrier, 0);
  for (int i = threadIdx.x; i < kTileRows * kTileColumns; i += 128) {
    out[(row + i / kTileColumns) * x_dim1 + column + i % kTileColumns] = fmaxf(tile[i], 0.0f);
  }
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                              const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                              CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  void* found = nullptr;
  cudaDriverEntryPointQueryResult answer;
  cudaError_t status =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &answer);
  if (status != cudaSuccess) return status;
  if (answer != cudaDriverEntryPointSuccess) return 1;
  CUtensorMap map;
  const cuuint64_t sizes[2] = {cuuint64_t(x_dim1), cuuint64_t(x_dim0)}, strides[1] = {cuuint64_t(x_dim1 * sizeof(float))};
  const cuuint32_t box[2] = {kTileColumns, kTileRows}, steps[2] = {1, 1};
  const CUresult made = reinterpret_cast<Encode>(found)(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, const_cast<float*>(x), sizes, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (made != CUDA_SUCCESS) return int(made);
  cut_off<<<dim3(x_dim1 / kTileColumns, x_dim0 / kTileRows), 128, 0, stream>>>(map, out);
  return cudaGetLastError();
}
