// Warpgroup matrix instructions fed by the tensor copy engine, one persistent block to a multiprocessor.
//
// A warp of producers keeps a ring of 64-deep slices of both operands filled; two warpgroups of consumers own 64 x 256
// of a 128 x 256 tile each, in registers. With CLUSTER = 2 the blocks of a pair take tiles one below the other: each
// fetches half of b's slice and sends it to both, since without that L2 would have to deliver more than it can
// (48 KB for 1024 cycles of products on every multiprocessor). Results leave through shared memory and the copy engine,
// while the producer fetches the next tile's slices already.
// Needs compute capability 9.0a.
//
// tune: CLUSTER = 1, 2
// tune: STAGES = 3, 4
// tune: GROUP = 4, 8, 16
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "contract.h"

#ifndef CLUSTER
#define CLUSTER 2
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef GROUP
#define GROUP 8
#endif

namespace {

constexpr int kM = a_dim0;
constexpr int kK = a_dim1;
constexpr int kColumns = b_dim1;
static_assert(kK % 8 == 0 && kColumns % 8 == 0, "the copy engine needs rows of whole 16 bytes");
constexpr int kTileM = 128;
constexpr int kTileN = 256;
constexpr int kSlice = 64;  // k of one stage: 128 bytes, the width of the swizzle
constexpr int kRowTiles = (kM + kTileM * CLUSTER - 1) / (kTileM * CLUSTER);  // of a whole cluster
constexpr int kColumnTiles = (kColumns + kTileN - 1) / kTileN;
constexpr int kTiles = kRowTiles * kColumnTiles;
constexpr int kSlices = (kK + kSlice - 1) / kSlice;
constexpr int kABytes = kTileM * kSlice * 2;
constexpr int kBoxBytes = kSlice * 64 * 2;  // b arrives in boxes of 64 columns
constexpr int kBoxes = kTileN / 64;
constexpr int kBBytes = kBoxes * kBoxBytes;
constexpr int kStageBytes = kABytes + kBBytes;
constexpr int kOutBytes = 64 * 64 * 2;  // a consumer's 64 rows, 64 columns at a time, in two buffers
constexpr int kConsumers = 2;
constexpr int kShared = STAGES * kStageBytes + kConsumers * 2 * kOutBytes + 1024;
constexpr int kThreads = 128 * (1 + kConsumers);
static_assert(kShared <= 226 * 1024, "ring and results must fit shared memory");

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

// Arrives at the barrier in the same place of block `rank` of the cluster. Nothing was written that others must see, so
// no wider scope: a release to the cluster would wait for all memory at every slice.
__device__ void barrier_arrive(uint64_t* barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(shared_address(barrier)), "r"(rank)
      : "memory");
}

__device__ void barrier_expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

__device__ void fetch(uint32_t destination, const CUtensorMap& map, int column, int row, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(destination),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(barrier))
      : "memory");
}

// The same place in every block of the cluster, and a signal at each one's barrier.
__device__ void fetch_for_all(uint32_t destination, const CUtensorMap& map, int column, int row, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(destination),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(barrier)), "h"(static_cast<uint16_t>((1 << CLUSTER) - 1))
      : "memory");
}

__device__ void store_out(const CUtensorMap& map, uint32_t source, int column, int row) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
               "r"(column), "r"(row), "r"(source)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Rows of 128 bytes in the 128-byte swizzle. `next_group`: from 8 rows to the next 8. `next_box`: from 64 columns to
// the next 64 where a row is a piece of n; unused where it is a piece of k.
__device__ uint64_t describe(uint32_t address, int next_box, int next_group) {
  return (address >> 4 & 0x3fff) | static_cast<uint64_t>(next_box >> 4) << 16 |
         static_cast<uint64_t>(next_group >> 4) << 32 | 1ull << 62;
}

// d = a b (+ d): 64 rows, 256 columns, 16 k; a along k, b along n.
__device__ __forceinline__ void multiply(float (&d)[128], uint64_t a, uint64_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7,"
      "%8, %9, %10, %11, %12, %13, %14, %15,"
      "%16, %17, %18, %19, %20, %21, %22, %23,"
      "%24, %25, %26, %27, %28, %29, %30, %31,"
      "%32, %33, %34, %35, %36, %37, %38, %39,"
      "%40, %41, %42, %43, %44, %45, %46, %47,"
      "%48, %49, %50, %51, %52, %53, %54, %55,"
      "%56, %57, %58, %59, %60, %61, %62, %63,"
      "%64, %65, %66, %67, %68, %69, %70, %71,"
      "%72, %73, %74, %75, %76, %77, %78, %79,"
      "%80, %81, %82, %83, %84, %85, %86, %87,"
      "%88, %89, %90, %91, %92, %93, %94, %95,"
      "%96, %97, %98, %99, %100, %101, %102, %103,"
      "%104, %105, %106, %107, %108, %109, %110, %111,"
      "%112, %113, %114, %115, %116, %117, %118, %119,"
      "%120, %121, %122, %123, %124, %125, %126, %127"
      "}, %128, %129, p, 1, 1, 0, 1;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
        "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
        "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
        "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
        "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
        "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
        "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

// Four 8 x 8 blocks of halves, one row address from each lane.
__device__ void store_matrices(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

__device__ uint32_t pack(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}

struct Place {
  int row;
  int column;
};

// GROUP rows of tiles before the next column: clusters that run together share operands in L2.
__device__ Place place_of(int tile) {
  constexpr int kPerGroup = GROUP * kColumnTiles;
  const int first = tile / kPerGroup * GROUP;
  const int height = kRowTiles - first < GROUP ? kRowTiles - first : GROUP;
  return {first + tile % kPerGroup % height, tile % kPerGroup / height};
}

__device__ int cluster_rank() { return CLUSTER == 1 ? 0 : blockIdx.x % CLUSTER; }

__device__ void synchronise_cluster() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

struct Ring {
  uint64_t full[STAGES];
  uint64_t empty[STAGES];
};

__device__ void produce(const CUtensorMap& a_map, const CUtensorMap& b_map, uint32_t stages, Ring& ring) {
  constexpr int kOwnBoxes = kBoxes / CLUSTER;
  const int rank = cluster_rank();
  int turn = 0;
  for (int tile = blockIdx.x / CLUSTER; tile < kTiles; tile += gridDim.x / CLUSTER) {
    const Place place = place_of(tile);
    const int row = (place.row * CLUSTER + rank) * kTileM;
    for (int slice = 0; slice < kSlices; ++slice, ++turn) {
      const int stage = turn % STAGES;
      const uint32_t base = stages + stage * kStageBytes;
      uint64_t* full = &ring.full[stage];
      barrier_wait(&ring.empty[stage], (turn / STAGES & 1) ^ 1);
      barrier_expect(full, kStageBytes);
      fetch(base, a_map, slice * kSlice, row, full);
#pragma unroll
      for (int i = 0; i < kOwnBoxes; ++i) {
        const int box = rank * kOwnBoxes + i;
        const uint32_t at = base + kABytes + box * kBoxBytes;
        if (CLUSTER == 1) fetch(at, b_map, place.column * kTileN + box * 64, slice * kSlice, full);
        if (CLUSTER > 1) fetch_for_all(at, b_map, place.column * kTileN + box * 64, slice * kSlice, full);
      }
    }
  }
}

// Everyone who sends to this block may reuse the stage.
__device__ void release(Ring& ring, int turn) {
  if (threadIdx.x % 128 < CLUSTER) barrier_arrive(&ring.empty[turn % STAGES], threadIdx.x % 128);
}

__device__ void write_tile(const CUtensorMap& out_map, const float (&sums)[128], uint32_t buffers, int group, int row,
                           int column) {
  const int lane = threadIdx.x % 32;
  const int line = threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
  for (int box = 0; box < kBoxes; ++box) {
    const uint32_t buffer = buffers + box % 2 * kOutBytes;
    if (threadIdx.x % 128 == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      const float* d = sums + (box * 8 + n) * 4;
      const uint32_t at = buffer + line * 128 + ((n + lane / 16) ^ (line % 8)) * 16;
      store_matrices(at, pack(d[0], d[1]), pack(d[2], d[3]), pack(d[4], d[5]), pack(d[6], d[7]));
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
    if (threadIdx.x % 128 == 0) store_out(out_map, buffer, column + box * 64, row);
  }
}

__device__ void consume(const CUtensorMap& out_map, uint32_t stages, uint32_t results, Ring& ring) {
  const int group = threadIdx.x / 128;
  const uint32_t buffers = results + group * 2 * kOutBytes;
  int turn = 0;
  for (int tile = blockIdx.x / CLUSTER; tile < kTiles; tile += gridDim.x / CLUSTER) {
    float sums[128];
    for (int slice = 0; slice < kSlices; ++slice, ++turn) {
      const int stage = turn % STAGES;
      const uint32_t a = stages + stage * kStageBytes + group * (64 * kSlice * 2);
      const uint32_t b = stages + stage * kStageBytes + kABytes;
      barrier_wait(&ring.full[stage], turn / STAGES & 1);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int k = 0; k < kSlice / 16; ++k) {
        multiply(sums, describe(a + k * 32, 16, 1024), describe(b + k * 16 * 128, kBoxBytes, 1024), slice + k > 0);
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (slice > 0) release(ring, turn - 1);
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    release(ring, turn - 1);
    const Place place = place_of(tile);
    const int row = (place.row * CLUSTER + cluster_rank()) * kTileM + group * 64;
    write_tile(out_map, sums, buffers, group, row, place.column * kTileN);
  }
  if (threadIdx.x % 128 == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(kThreads, 1)
    matmul_persistent(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                      const __grid_constant__ CUtensorMap out_map) {
  extern __shared__ unsigned char raw[];
  __shared__ __align__(8) Ring ring;
  const uint32_t stages = (shared_address(raw) + 1023) & ~1023u;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      barrier_init(&ring.full[stage], 1);
      barrier_init(&ring.empty[stage], kConsumers * CLUSTER);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (CLUSTER > 1) synchronise_cluster();  // nobody signals a barrier that is not there yet
  if (threadIdx.x >= kConsumers * 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == kConsumers * 128) produce(a_map, b_map, stages, ring);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    consume(out_map, stages, stages + STAGES * kStageBytes, ring);
  }
  __syncthreads();
  if (CLUSTER > 1) synchronise_cluster();  // nobody leaves while others signal its barriers
}

using Encode = decltype(&cuTensorMapEncodeTiled);

// A row-major matrix of halves, in boxes of 64 columns.
bool describe_matrix(Encode encode, CUtensorMap* map, const __half* data, uint64_t rows, uint64_t columns,
                     uint32_t box_rows) {
  const cuuint64_t sizes[2] = {columns, rows};
  const cuuint64_t strides[1] = {columns * 2};
  const cuuint32_t box[2] = {64, box_rows};
  const cuuint32_t steps[2] = {1, 1};
  return encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<__half*>(data), sizes, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace

extern "C" int matmul_fp16(const __half* a, const __half* b, __half* out, void* workspace, cudaStream_t stream) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
  if (entry == nullptr) return cudaErrorNotSupported;
  const Encode encode = reinterpret_cast<Encode>(entry);
  CUtensorMap a_map, b_map, out_map;
  if (!describe_matrix(encode, &a_map, a, kM, kK, kTileM) ||
      !describe_matrix(encode, &b_map, b, kK, kColumns, kSlice) ||
      !describe_matrix(encode, &out_map, out, kM, kColumns, 64)) {
    return cudaErrorInvalidValue;
  }
  int device = 0;
  int processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  const int clusters = processors / CLUSTER < kTiles ? processors / CLUSTER : kTiles;
  cudaFuncSetAttribute(matmul_persistent, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  matmul_persistent<<<clusters * CLUSTER, kThreads, kShared, stream>>>(a_map, b_map, out_map);
  return cudaGetLastError();
}
