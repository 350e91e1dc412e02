// Persistent clusters with a pipeline of rows: the copy engine brings rows into distributed shared memory and takes
// results out again, so loads of the next rows and stores of the last ones run while a row is being worked on.
// Needs compute capability 9.0.
//
// tune: CLUSTER = 2, 4, 8
// tune: THREADS = 256, 512, 1024
// tune: STAGES = 1, 2, 3, 6
// tune-if: CLUSTER * THREADS >= 1024 and CLUSTER * THREADS <= 8192 and STAGES <= 3 * CLUSTER // 4
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cmath>

#include "contract.h"

#ifndef CLUSTER
#define CLUSTER 4
#endif
#ifndef THREADS
#define THREADS 512
#endif
#ifndef STAGES
#define STAGES 3
#endif

namespace {

namespace cg = cooperative_groups;

static_assert(x_dim1 % (4 * CLUSTER) == 0, "a row is cut evenly over the cluster");
constexpr int kRows = x_numel / x_dim1;
constexpr int kPart = x_dim1 / CLUSTER;  // floats that one block holds of a row
constexpr int kVectors = kPart / 4;
constexpr int kPerThread = (kVectors + THREADS - 1) / THREADS;
constexpr int kWarps = THREADS / 32;
constexpr int kShared = STAGES * kPart * 4;
static_assert(kShared <= 224 * 1024, "the stages must fit shared memory");
static_assert(kPerThread <= 16, "a part must fit the registers of its block");

__device__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(barrier), "r"(parity)
      : "memory");
}

__device__ void load_part(uint32_t destination, const float* source, uint32_t barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(kPart * 4) : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(destination),
      "l"(source), "r"(kPart * 4), "r"(barrier)
      : "memory");
}

__device__ float warp_max(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

__device__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS)
    softmax_pipeline(const float* __restrict__ x, float* __restrict__ out) {
  extern __shared__ __align__(128) float rows[];  // [STAGES][kPart]
  __shared__ __align__(8) uint64_t full[STAGES];
  __shared__ float partial[2][kWarps];
  __shared__ float2 settled[2];  // by parity of the row: one cluster barrier per row is enough
  const cg::cluster_group cluster = cg::this_cluster();
  const int rank = cluster.block_rank();
  const int clusters = gridDim.x / CLUSTER;
  const int first_row = blockIdx.x / CLUSTER;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[stage])) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int ahead = 0; ahead < STAGES; ++ahead) {
      const int64_t row = first_row + ahead * clusters;
      if (row < kRows) {
        load_part(shared_address(rows + ahead * kPart), x + row * x_dim1 + rank * kPart, shared_address(&full[ahead]));
      }
    }
  }
  __syncthreads();

  int turn = 0;
  for (int64_t row = first_row; row < kRows; row += clusters, ++turn) {
    const int stage = turn % STAGES;
    float4* part = reinterpret_cast<float4*>(rows + stage * kPart);
    barrier_wait(shared_address(&full[stage]), turn / STAGES & 1);
    float4 v[kPerThread];
    float highest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int column = threadIdx.x + i * THREADS;
      v[i] = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
      if (kVectors % THREADS == 0 || column < kVectors) v[i] = part[column];
      highest = fmaxf(highest, fmaxf(fmaxf(v[i].x, v[i].y), fmaxf(v[i].z, v[i].w)));
    }
    highest = warp_max(highest);
    if (lane == 0) partial[0][warp] = highest;
    __syncthreads();
    highest = warp_max(partial[0][lane % kWarps]);
    const float shift = highest == -INFINITY ? 0.0f : highest;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      v[i].x = expf(v[i].x - shift);
      v[i].y = expf(v[i].y - shift);
      v[i].z = expf(v[i].z - shift);
      v[i].w = expf(v[i].w - shift);
      sum += (v[i].x + v[i].y) + (v[i].z + v[i].w);
    }
    sum = warp_sum(sum);
    if (lane == 0) partial[1][warp] = sum;
    __syncthreads();
    if (warp == 0) {
      sum = warp_sum(lane < kWarps ? partial[1][lane] : 0.0f);
      if (lane == 0) settled[turn & 1] = make_float2(highest, sum);
    }
    cluster.sync();

    float2 others[CLUSTER];
    float row_max = -INFINITY;
#pragma unroll
    for (int other = 0; other < CLUSTER; ++other) {
      others[other] = *cluster.map_shared_rank(&settled[turn & 1], other);
      row_max = fmaxf(row_max, others[other].x);
    }
    float row_sum = 0.0f;
#pragma unroll
    for (int other = 0; other < CLUSTER; ++other) {
      row_sum += others[other].x == -INFINITY ? others[other].y : others[other].y * expf(others[other].x - row_max);
    }
    const float scale = (highest == -INFINITY ? 1.0f : expf(highest - row_max)) / row_sum;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int column = threadIdx.x + i * THREADS;
      v[i].x *= scale;
      v[i].y *= scale;
      v[i].z *= scale;
      v[i].w *= scale;
      if (kVectors % THREADS == 0 || column < kVectors) part[column] = v[i];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out + row * x_dim1 + rank * kPart),
                   "r"(shared_address(part)), "r"(kPart * 4)
                   : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      // The stage of the row before this one: its store has had a whole row's time to leave shared memory.
      const int64_t next = row + static_cast<int64_t>(STAGES - 1) * clusters;
      if (STAGES > 1 && turn > 0 && next < kRows) {
        asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        const int free = (turn - 1) % STAGES;
        load_part(shared_address(rows + free * kPart), x + next * x_dim1 + rank * kPart, shared_address(&full[free]));
      }
      if (STAGES == 1 && row + clusters < kRows) {
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        load_part(shared_address(rows), x + (row + clusters) * x_dim1 + rank * kPart, shared_address(&full[0]));
      }
    }
  }
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  cluster.sync();  // the others may still read `settled`
}

}  // namespace

extern "C" int softmax(const float* x, float* out, void* workspace, cudaStream_t stream) {
  int device = 0;
  int processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaFuncSetAttribute(softmax_pipeline, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  // As many clusters as run at once: they lie within groups of multiprocessors, so fewer fit than blocks alone would,
  // and one that has to wait for a place would double the time.
  cudaLaunchAttribute shape;
  shape.id = cudaLaunchAttributeClusterDimension;
  shape.val.clusterDim = {CLUSTER, 1, 1};
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(processors / CLUSTER * CLUSTER);
  launch.blockDim = dim3(THREADS);
  launch.dynamicSmemBytes = kShared;
  launch.attrs = &shape;
  launch.numAttrs = 1;
  int clusters = 0;
  cudaOccupancyMaxActiveClusters(&clusters, softmax_pipeline, &launch);
  if (clusters < 1) return cudaErrorLaunchOutOfResources;
  softmax_pipeline<<<clusters * CLUSTER, THREADS, kShared, stream>>>(x, out);
  return cudaGetLastError();
}
