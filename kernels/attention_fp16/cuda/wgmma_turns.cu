// Attention on warpgroup matrix instructions, one persistent block to a multiprocessor.
//
// A warp of producers brings queries, keys and values in through the tensor copy engine. Each warpgroup of consumers
// owns 64 queries: scores in registers, running maximum and sum, weights turned in place into the left operand of the
// second product. The second product of one block of keys runs while the exponentials of the next are computed; the
// warpgroups take turns at the matrix units (TURNS = 1), so that one multiplies while the other exponentiates.
// Needs compute capability 9.0a.
//
// tune: CONSUMERS = 2, 4
// tune: KEYS = 64, 128
// tune: STAGES = 2, 3, 4
// tune: TURNS = 0, 1
// tune-if: CONSUMERS == 2 or KEYS == 64
// tune-if: CONSUMERS == 2 or TURNS == 0
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>

#include "contract.h"

#ifndef CONSUMERS
#define CONSUMERS 2
#endif
#ifndef KEYS
#define KEYS 128
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef TURNS
#define TURNS 1
#endif

namespace {

constexpr int kDepth = q_dim3;
constexpr int kQueries = q_dim2;
constexpr int kKeys = k_dim2;
constexpr int kHeads = q_dim0 * q_dim1;
constexpr int kTile = 64 * CONSUMERS;  // queries of a block
static_assert(kDepth == 64, "a row is the 128 bytes of the swizzle");
static_assert(kQueries % kTile == 0 && kKeys % KEYS == 0, "blocks of queries and keys end with a head");
constexpr int kTilesPerHead = kQueries / kTile;
constexpr int kTiles = kHeads * kTilesPerHead;
constexpr int kBlocks = kKeys / KEYS;
constexpr int kQueryBytes = kTile * kDepth * 2;
constexpr int kBlockBytes = KEYS * kDepth * 2;
constexpr int kQueryStages = 2;
constexpr int kShared = kQueryStages * kQueryBytes + 2 * STAGES * kBlockBytes + 1024;
constexpr int kThreads = 128 * (1 + CONSUMERS);
static_assert(kShared <= 226 * 1024, "queries and the ring must fit shared memory");
// exp(score / sqrt(depth)) = 2^(score * kScale)
constexpr float kScale = 0.125f * 1.4426950408889634f;

__device__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ void barrier_init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

__device__ void barrier_wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(shared_address(barrier)), "r"(parity)
      : "memory");
}

__device__ void barrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ void barrier_expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

__device__ void fetch(uint32_t destination, const CUtensorMap& map, int row, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(destination),
      "l"(&map), "r"(0), "r"(row), "r"(shared_address(barrier))
      : "memory");
}

// Rows of 128 bytes in the 128-byte swizzle, the next 8 rows after 1024 bytes.
__device__ uint64_t describe(uint32_t address) {
  return (address >> 4 & 0x3fff) | 1ull << 16 | static_cast<uint64_t>(1024 >> 4) << 32 | 1ull << 62;
}

#if KEYS == 128
// d = a b (+ d): 64 queries, 128 keys, 16 deep; both along the depth.
__device__ __forceinline__ void multiply(float (&d)[64], uint64_t a, uint64_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7,"
      "%8, %9, %10, %11, %12, %13, %14, %15,"
      "%16, %17, %18, %19, %20, %21, %22, %23,"
      "%24, %25, %26, %27, %28, %29, %30, %31,"
      "%32, %33, %34, %35, %36, %37, %38, %39,"
      "%40, %41, %42, %43, %44, %45, %46, %47,"
      "%48, %49, %50, %51, %52, %53, %54, %55,"
      "%56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, p, 1, 1, 0, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
#else
// d = a b (+ d): 64 queries, 64 keys, 16 deep; both along the depth.
__device__ __forceinline__ void multiply(float (&d)[32], uint64_t a, uint64_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7,"
      "%8, %9, %10, %11, %12, %13, %14, %15,"
      "%16, %17, %18, %19, %20, %21, %22, %23,"
      "%24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, p, 1, 1, 0, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
#endif

// d = a b (+ d): 64 queries, 64 deep, 16 keys; a in registers, b along the depth.
__device__ __forceinline__ void multiply(float (&d)[32], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7,"
      "%8, %9, %10, %11, %12, %13, %14, %15,"
      "%16, %17, %18, %19, %20, %21, %22, %23,"
      "%24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)));
}

__device__ float power_of_two(float exponent) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent));
  return result;
}

__device__ uint32_t pack(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}

// Four 8 x 8 blocks of halves, one row address from each lane.
__device__ void store_matrices(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

struct Barriers {
  uint64_t queries_full[kQueryStages];
  uint64_t queries_empty[kQueryStages];
  uint64_t keys_full[STAGES];
  uint64_t keys_empty[STAGES];
  uint64_t values_full[STAGES];
  uint64_t values_empty[STAGES];
};

struct Memory {
  uint32_t queries;
  uint32_t keys;
  uint32_t values;
};

__device__ void produce(const CUtensorMap& q_map, const CUtensorMap& k_map, const CUtensorMap& v_map,
                        const Memory& memory, Barriers& barriers) {
  int turn = 0;
  int round = 0;
  for (int tile = blockIdx.x; tile < kTiles; tile += gridDim.x, ++round) {
    const int part = round % kQueryStages;
    barrier_wait(&barriers.queries_empty[part], (round / kQueryStages & 1) ^ 1);
    barrier_expect(&barriers.queries_full[part], kQueryBytes);
    fetch(memory.queries + part * kQueryBytes, q_map, tile * kTile, &barriers.queries_full[part]);
    const int first = tile / kTilesPerHead * kKeys;
    for (int block = 0; block < kBlocks; ++block, ++turn) {
      const int stage = turn % STAGES;
      const uint32_t parity = (turn / STAGES & 1) ^ 1;
      barrier_wait(&barriers.keys_empty[stage], parity);
      barrier_expect(&barriers.keys_full[stage], kBlockBytes);
      fetch(memory.keys + stage * kBlockBytes, k_map, first + block * KEYS, &barriers.keys_full[stage]);
      barrier_wait(&barriers.values_empty[stage], parity);
      barrier_expect(&barriers.values_full[stage], kBlockBytes);
      fetch(memory.values + stage * kBlockBytes, v_map, first + block * KEYS, &barriers.values_full[stage]);
    }
  }
}

__device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// A sum of weights is never negative: the trap only keeps the assembler from moving the exponentials that the sum is
// made of behind the wait that follows, where they would no longer run beside the products.
__device__ __forceinline__ void finish_first(float sum) {
  asm volatile("{\n.reg .pred p;\nsetp.lt.f32 p, %0, 0f00000000;\n@p trap;\n}" ::"f"(sum) : "memory");
}

// Waits until only the last kPending groups of products run; `settled` is not touched before.
template <int kPending, int kCount>
__device__ __forceinline__ void wait_products(float (&settled)[kCount]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(settled[i])::"memory");
}

// Two warpgroups alternate at the matrix units.
__device__ void take_turn(int group) {
  if (TURNS) asm volatile("bar.sync %0, 256;" ::"r"(group + 1) : "memory");
}

__device__ void give_turn(int group) {
  if (TURNS) asm volatile("bar.arrive %0, 256;" ::"r"((group ^ 1) + 1) : "memory");
}

using Scores = float[KEYS / 2];
using Weights = uint32_t[KEYS / 16][4];
using Result = float[kDepth / 2];

// The two rows of a thread: g and g + 8 of the 16 of its warp.
struct Running {
  float highest[2];
  float total[2];
};

__device__ __forceinline__ void multiply_keys(Scores& scores, uint32_t queries, uint32_t keys) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) multiply(scores, describe(queries + k * 32), describe(keys + k * 32), k > 0);
  commit();
}

__device__ __forceinline__ void multiply_values(Result& sums, const Weights& weights, uint32_t values,
                                                bool accumulate) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int k = 0; k < KEYS / 16; ++k) multiply(sums, weights[k], describe(values + k * 16 * 128), accumulate || k > 0);
  commit();
}

// Turns scores into weights; returns what earlier sums shrink by.
__device__ __forceinline__ float2 exponentiate(Scores& scores, Running& running) {
  float shrink[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float highest = running.highest[half];
#pragma unroll
    for (int n = 0; n < KEYS / 8; ++n) {
      highest = fmaxf(highest, fmaxf(scores[n * 4 + half * 2], scores[n * 4 + half * 2 + 1]));
    }
    highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, 1));
    highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, 2));
    shrink[half] = power_of_two((running.highest[half] - highest) * kScale);
    running.highest[half] = highest;
    const float shift = highest * kScale;
    float total = 0.0f;
#pragma unroll
    for (int n = 0; n < KEYS / 8; ++n) {
      float& left = scores[n * 4 + half * 2];
      float& right = scores[n * 4 + half * 2 + 1];
      left = power_of_two(left * kScale - shift);
      right = power_of_two(right * kScale - shift);
      total += left + right;
    }
    running.total[half] = running.total[half] * shrink[half] + total;
  }
  return make_float2(shrink[0], shrink[1]);
}

__device__ __forceinline__ void pack_weights(const Scores& scores, Weights& weights) {
#pragma unroll
  for (int k = 0; k < KEYS / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) weights[k][i] = pack(scores[k * 8 + i * 2], scores[k * 8 + i * 2 + 1]);
  }
}

// Results of 64 queries, over the queries themselves: nobody else reads those rows.
__device__ __forceinline__ void write_result(const CUtensorMap& out_map, Result& sums, Running& running, uint32_t rows,
                                             int first_row, int group) {
  float scale[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = running.total[half];
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    scale[half] = 1.0f / total;
  }
  const int lane = threadIdx.x % 32;
  const int line = threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
  for (int n = 0; n < kDepth / 8; n += 2) {
    const float* d = sums + n * 4;
    store_matrices(rows + line * 128 + ((n + lane / 16) ^ (line % 8)) * 16, pack(d[0] * scale[0], d[1] * scale[0]),
                   pack(d[2] * scale[1], d[3] * scale[1]), pack(d[4] * scale[0], d[5] * scale[0]),
                   pack(d[6] * scale[1], d[7] * scale[1]));
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("bar.sync %0, 128;" ::"r"(group + 1 + CONSUMERS) : "memory");
  if (threadIdx.x % 128 == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&out_map),
                 "r"(0), "r"(first_row), "r"(rows)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
}

__device__ void consume(const CUtensorMap& out_map, const Memory& memory, Barriers& barriers) {
  const int group = threadIdx.x / 128;
  const bool speaks = threadIdx.x % 128 == 0;
  int turn = 0;
  int round = 0;
  if (group == 1) give_turn(group);  // the first turn is the other's
  for (int tile = blockIdx.x; tile < kTiles; tile += gridDim.x, ++round) {
    const int part = round % kQueryStages;
    const uint32_t queries = memory.queries + part * kQueryBytes + group * (64 * kDepth * 2);
    Running running = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    Scores scores;
    Weights weights;
    Result sums;
    barrier_wait(&barriers.queries_full[part], round / kQueryStages & 1);
    barrier_wait(&barriers.keys_full[turn % STAGES], turn / STAGES & 1);
    take_turn(group);
    multiply_keys(scores, queries, memory.keys + turn % STAGES * kBlockBytes);
    give_turn(group);
    wait_products<0>(scores);
    if (speaks) barrier_arrive(&barriers.keys_empty[turn % STAGES]);
    exponentiate(scores, running);
    pack_weights(scores, weights);
    for (int block = 1; block < kBlocks; ++block) {
      const int stage = turn % STAGES;
      const uint32_t parity = turn / STAGES & 1;
      ++turn;
      const int next = turn % STAGES;
      barrier_wait(&barriers.keys_full[next], turn / STAGES & 1);
      take_turn(group);
      multiply_keys(scores, queries, memory.keys + next * kBlockBytes);
      barrier_wait(&barriers.values_full[stage], parity);
      multiply_values(sums, weights, memory.values + stage * kBlockBytes, block > 1);
      give_turn(group);
      wait_products<1>(scores);
      if (speaks) barrier_arrive(&barriers.keys_empty[next]);
      const float2 shrink = exponentiate(scores, running);
      if (CONSUMERS == 2) finish_first(running.total[0] + running.total[1]);  // four fill the gaps without
      wait_products<0>(sums);
      if (speaks) barrier_arrive(&barriers.values_empty[stage]);
#pragma unroll
      for (int n = 0; n < kDepth / 2; ++n) sums[n] *= n % 4 < 2 ? shrink.x : shrink.y;
      pack_weights(scores, weights);
    }
    barrier_wait(&barriers.values_full[turn % STAGES], turn / STAGES & 1);
    multiply_values(sums, weights, memory.values + turn % STAGES * kBlockBytes, kBlocks > 1);
    wait_products<0>(sums);
    if (speaks) barrier_arrive(&barriers.values_empty[turn % STAGES]);
    ++turn;
    write_result(out_map, sums, running, queries, tile * kTile + group * 64, group);
    if (speaks) barrier_arrive(&barriers.queries_empty[part]);
  }
  if (speaks) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

__global__ void __launch_bounds__(kThreads, 1)
    attend(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
           const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap out_map) {
  extern __shared__ unsigned char raw[];
  __shared__ __align__(8) Barriers barriers;
  Memory memory;
  memory.queries = (shared_address(raw) + 1023) & ~1023u;
  memory.keys = memory.queries + kQueryStages * kQueryBytes;
  memory.values = memory.keys + STAGES * kBlockBytes;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kQueryStages; ++i) {
      barrier_init(&barriers.queries_full[i], 1);
      barrier_init(&barriers.queries_empty[i], CONSUMERS);
    }
    for (int i = 0; i < STAGES; ++i) {
      barrier_init(&barriers.keys_full[i], 1);
      barrier_init(&barriers.keys_empty[i], CONSUMERS);
      barrier_init(&barriers.values_full[i], 1);
      barrier_init(&barriers.values_empty[i], CONSUMERS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x >= CONSUMERS * 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == CONSUMERS * 128) produce(q_map, k_map, v_map, memory, barriers);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMERS == 2 ? 240 : 112));
    consume(out_map, memory, barriers);
  }
}

using Encode = decltype(&cuTensorMapEncodeTiled);

// All heads as one row-major matrix of halves, in boxes of whole rows.
bool describe_rows(Encode encode, CUtensorMap* map, const __half* data, uint64_t rows, uint32_t box_rows) {
  const cuuint64_t sizes[2] = {kDepth, rows};
  const cuuint64_t strides[1] = {kDepth * 2};
  const cuuint32_t box[2] = {kDepth, box_rows};
  const cuuint32_t steps[2] = {1, 1};
  return encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<__half*>(data), sizes, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace

extern "C" int attention_fp16(const __half* q, const __half* k, const __half* v, __half* out, void* workspace,
                              cudaStream_t stream) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
  if (entry == nullptr) return cudaErrorNotSupported;
  const Encode encode = reinterpret_cast<Encode>(entry);
  constexpr uint64_t kQueryRows = static_cast<uint64_t>(kHeads) * kQueries;
  constexpr uint64_t kKeyRows = static_cast<uint64_t>(kHeads) * kKeys;
  CUtensorMap q_map, k_map, v_map, out_map;
  if (!describe_rows(encode, &q_map, q, kQueryRows, kTile) || !describe_rows(encode, &k_map, k, kKeyRows, KEYS) ||
      !describe_rows(encode, &v_map, v, kKeyRows, KEYS) || !describe_rows(encode, &out_map, out, kQueryRows, 64)) {
    return cudaErrorInvalidValue;
  }
  int device = 0;
  int processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaFuncSetAttribute(attend, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  attend<<<processors < kTiles ? processors : kTiles, kThreads, kShared, stream>>>(q_map, k_map, v_map, out_map);
  return cudaGetLastError();
}
