// Convolution as an implicit matrix product on warpgroup matrix units: im2col happens on the way from shared memory to
// registers.
//
// Every value is scaled by a power of two (per sample, per filter) and split into a half and the half rest; with three
// products (high x high, high x low, low x high) the result is as exact as float32. PRODUCTS = 1 leaves the rest out:
// plain half precision with float32 sums, a lower precision class.
//
// The filters (high and low plane) stay in shared memory for the life of a block. Input rows arrive in a ring of rows,
// converted once by a warpgroup of producers. The other warpgroup takes two rows of the convolution at a time: the
// left operand is gathered from the ring straight into matrix fragments, as the stride (4) makes every group of four
// taps of a filter row an aligned 8-byte load.
// Infinities in the input come out as NaN. Needs compute capability 9.0a.
//
// tune: PRODUCTS = 3
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "contract.h"

#ifndef PRODUCTS
#define PRODUCTS 3
#endif

namespace {

constexpr int kSamples = x_dim0;
constexpr int kChannels = out_channels;
constexpr int kHeight = x_dim2;
constexpr int kWidth = x_dim3;
constexpr int kFilter = kernel_size;
constexpr int kRows = (kHeight + 2 * padding - kFilter) / stride + 1;  // of the convolution
constexpr int kColumns = (kWidth + 2 * padding - kFilter) / stride + 1;
static_assert(in_channels == 3 && kFilter == 11 && stride == 4 && padding <= 4, "taps are laid out for these");
static_assert(kChannels == 96, "one matrix instruction covers all filters");
static_assert(kWidth % 4 == 0 && padding % 2 == 0, "input rows are read as float4 and stored as pairs of halves");
static_assert(kColumns <= 64, "a row of the convolution fits one matrix instruction");
constexpr int kUnits = (kRows + 1) / 2;  // work items of a sample: pairs of rows

// k runs over (filter row, input channel, tap in groups of four). Groups of 4 x 4 make a step of 16.
constexpr int kFilterRows = 3 * kFilter;             // (filter row, input channel)
constexpr int kGroups = 3 * kFilterRows;             // 11 taps padded to 3 groups of 4
constexpr int kSteps = (kGroups + 3) / 4;
constexpr int kPlaneBytes = kSteps * 16 * kChannels * 2;
constexpr int kPlanes = PRODUCTS == 1 ? 1 : 2;
constexpr int kFilterBytes = kPlanes * kPlaneBytes;

// The ring: 11 + 4 input rows are in use by a pair of rows, 8 more are on their way for the next pair.
constexpr int kRing = kFilter + 4 + 8;
constexpr int kRowHalves = 4 * (kColumns - 1) + 12;  // 228: 18 words modulo 32, free of bank conflicts
constexpr int kRowBytes = kRowHalves * 2;
constexpr int kRingRows = kRing * 3;
constexpr int kRingPlane = kRingRows * kRowBytes;
static_assert(kRowBytes % 8 == 0 && kRowHalves >= kWidth + padding, "a padded input row fits a row of the ring");
constexpr int kShared = kFilterBytes + kPlanes * kRingPlane + 128;
static_assert(kShared <= 225 * 1024, "filters and ring must fit shared memory");

// Workspace: packed filters, scale of each filter, largest values of slices of each sample.
constexpr int kSampleSlices = 8;
constexpr int64_t kSampleFloats = 3 * kHeight * kWidth;
constexpr size_t kScalesAt = 2 * kPlaneBytes;
constexpr size_t kLargestAt = kScalesAt + kChannels * sizeof(int);
constexpr size_t kWorkspace = kLargestAt + sizeof(float) * kSamples * kSampleSlices;

// The power of two that brings `largest` to [2^14, 2^15).
__device__ int scale_exponent(float largest) {
  return largest > 0.0f && largest <= 3.402823466e38f ? 14 - ilogbf(largest) : 0;
}

__device__ float block_max(float value, float* partial) {
  for (int offset = 16; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  for (int warp = 0; warp < blockDim.x / 32; ++warp) value = fmaxf(value, partial[warp]);
  return value;
}

// First blocks: largest magnitude of a slice of a sample. Last blocks: pack one filter each, as 8 x 8 blocks of
// [plane][step][k / 8][filter / 8][filter % 8][k % 8]. Thread t of a quad holds k = 2t, 2t + 1, 2t + 8, 2t + 9 of a step;
// they are made the four taps of group t.
__global__ void __launch_bounds__(256) prepare(const float* __restrict__ x, const float* __restrict__ weight,
                                               __half* __restrict__ packed, int* __restrict__ exponents,
                                               float* __restrict__ largest) {
  __shared__ float partial[8];
  float highest = 0.0f;
  if (blockIdx.x < kSamples * kSampleSlices) {
    const float4* sample = reinterpret_cast<const float4*>(x + blockIdx.x / kSampleSlices * kSampleFloats);
    constexpr int kVectors = kSampleFloats / 4;
#pragma unroll 4
    for (int i = blockIdx.x % kSampleSlices * 256 + threadIdx.x; i < kVectors; i += kSampleSlices * 256) {
      const float4 v = sample[i];
      highest = fmaxf(highest, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
    }
    highest = block_max(highest, partial);
    if (threadIdx.x == 0) largest[blockIdx.x] = highest;
    return;
  }
  const int filter = blockIdx.x - kSamples * kSampleSlices;
  const float* taps = weight + filter * 3 * kFilter * kFilter;
  for (int i = threadIdx.x; i < 3 * kFilter * kFilter; i += 256) highest = fmaxf(highest, fabsf(taps[i]));
  const int exponent = scale_exponent(block_max(highest, partial));
  if (threadIdx.x == 0) exponents[filter] = exponent;
  for (int slot = threadIdx.x; slot < kSteps * 16; slot += 256) {
    const int step = slot / 16;
    const int k = slot % 16;
    const int group = step * 4 + k % 8 / 2;
    const int row = group / 3;  // (filter row, input channel)
    const int tap = group % 3 * 4 + k % 2 + k / 8 * 2;
    const bool real = row < kFilterRows && tap < kFilter;
    const float value = real ? ldexpf(taps[(row % 3 * kFilter + row / 3) * kFilter + tap], exponent) : 0.0f;
    const __half high = __float2half_rn(value);
    const int at = step * 16 * kChannels + k / 8 * 8 * kChannels + filter * 8 + k % 8;
    packed[at] = high;
    packed[kPlaneBytes / 2 + at] = __float2half_rn(value - __half2float(high));
  }
}

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

__device__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ uint2 load8(uint32_t address) {
  uint2 value;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "r"(address) : "memory");
  return value;
}

__device__ void store4(uint32_t address, __half2 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(*reinterpret_cast<uint32_t*>(&value)) : "memory");
}

// d = a b (+ d): 64 pixels, 96 filters, 16 k; a in registers, b in shared memory.
__device__ __forceinline__ void multiply(float (&d)[48], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %53, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7,"
      "%8, %9, %10, %11, %12, %13, %14, %15,"
      "%16, %17, %18, %19, %20, %21, %22, %23,"
      "%24, %25, %26, %27, %28, %29, %30, %31,"
      "%32, %33, %34, %35, %36, %37, %38, %39,"
      "%40, %41, %42, %43, %44, %45, %46, %47"
      "}, {%48, %49, %50, %51}, %52, p, 1, 1, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)));
}

// 8 x 8 blocks: the next 8 filters after 128 bytes, the next 8 k after all filters.
__device__ uint64_t describe(uint32_t address) {
  constexpr uint64_t kNextK = kChannels / 8 * 128;
  return (address >> 4 & 0x3fff) | (kNextK >> 4) << 16 | static_cast<uint64_t>(128 >> 4) << 32;
}

// What producers and consumers both walk: pieces of samples, two rows of the convolution at a time.
struct Walk {
  int unit;  // over all samples
  int end;

  __device__ Walk() {
    constexpr int64_t kAll = static_cast<int64_t>(kSamples) * kUnits;
    unit = kAll * blockIdx.x / gridDim.x;
    end = kAll * (blockIdx.x + 1) / gridDim.x;
  }
  __device__ bool more() const { return unit < end; }
  __device__ int sample() const { return unit / kUnits; }
  __device__ int first() const { return unit % kUnits; }
  __device__ int count() const { return min(kUnits - first(), end - unit); }
  __device__ int pairs() const { return count(); }
  __device__ void advance() { unit += count(); }
};

// Converts `rows` input rows, from `y`, into the ring. All 128 producers take part.
__device__ void fill_ring(const float* __restrict__ sample, int y, int rows, int slot, int exponent, uint32_t ring) {
  constexpr int kVectors = kWidth / 4;
  constexpr int kMost = (8 * 3 * kVectors + 127) / 128;
  const int thread = threadIdx.x % 128;
  const int total = rows * 3 * kVectors;
  const float scale_a = ldexpf(1.0f, exponent / 2);  // two factors, as one may overflow
  const float scale_b = ldexpf(1.0f, exponent - exponent / 2);
  float4 v[kMost];
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    const int index = thread + i * 128;
    const int row = index / (3 * kVectors);
    const int channel = index / kVectors % 3;
    v[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (index < total && y + row >= 0 && y + row < kHeight) {
      v[i] = __ldg(reinterpret_cast<const float4*>(sample + (channel * kHeight + y + row) * kWidth) + index % kVectors);
    }
  }
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    const int index = thread + i * 128;
    if (index >= total) break;
    const int row = (slot + index / (3 * kVectors)) % kRing * 3 + index / kVectors % 3;
    const uint32_t at = ring + row * kRowBytes + (padding + index % kVectors * 4) * 2;
    const float4 scaled = make_float4(v[i].x * scale_a * scale_b, v[i].y * scale_a * scale_b, v[i].z * scale_a * scale_b,
                                      v[i].w * scale_a * scale_b);
    const __half2 left = __floats2half2_rn(scaled.x, scaled.y);
    const __half2 right = __floats2half2_rn(scaled.z, scaled.w);
    store4(at, left);
    store4(at + 4, right);
    if (kPlanes == 2) {
      const float2 l = __half22float2(left);
      const float2 r = __half22float2(right);
      store4(at + kRingPlane, __floats2half2_rn(scaled.x - l.x, scaled.y - l.y));
      store4(at + kRingPlane + 4, __floats2half2_rn(scaled.z - r.x, scaled.w - r.y));
    }
  }
}

__device__ int sample_exponent(const float* __restrict__ largest, int sample) {
  float highest = 0.0f;
  for (int slice = 0; slice < kSampleSlices; ++slice) highest = fmaxf(highest, largest[sample * kSampleSlices + slice]);
  return scale_exponent(highest);
}

struct Fragments {
  uint32_t high[4];
  uint32_t low[4];
};

__global__ void __launch_bounds__(256, 1)
    convolve(const float* __restrict__ x, const unsigned char* __restrict__ workspace, const float* __restrict__ bias,
             float* __restrict__ out) {
  extern __shared__ unsigned char raw[];
  __shared__ __align__(8) uint64_t filters_here;
  __shared__ __align__(8) uint64_t full[2];
  __shared__ __align__(8) uint64_t done[2];
  __shared__ float2 scale_and_bias[kChannels];
  const uint32_t filters = (shared_address(raw) + 127) & ~127u;
  const uint32_t ring = filters + kFilterBytes;
  const float* largest = reinterpret_cast<const float*>(workspace + kLargestAt);

  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&filters_here)) : "memory");
    for (int i = 0; i < 2; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(shared_address(&full[i])) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(shared_address(&done[i])) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    const uint32_t barrier = shared_address(&filters_here);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(kFilterBytes) : "memory");
    for (int plane = 0; plane < kPlanes; ++plane) {
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
              filters + plane * kPlaneBytes),
          "l"(workspace + plane * kPlaneBytes), "r"(kPlaneBytes), "r"(barrier)
          : "memory");
    }
  }
  // The padding left and right of the rows, and what no row has filled yet, is zero.
  for (int i = threadIdx.x; i < kPlanes * kRingPlane / 4; i += 256) store4(ring + i * 4, __half2half2(__half(0.0f)));
  if (threadIdx.x < kChannels) {
    const int exponent = reinterpret_cast<const int*>(workspace + kScalesAt)[threadIdx.x];
    scale_and_bias[threadIdx.x] = make_float2(ldexpf(1.0f, -exponent), bias[threadIdx.x]);
  }
  __syncthreads();

  int pair = 0;  // over the life of the block
  int slot = 0;  // of the ring: first input row of the pair
  if (threadIdx.x >= 128) {
    auto wait_done = [&](int which) {
      if (which >= 0) barrier_wait(shared_address(&done[which & 1]), which / 2 & 1);
    };
    for (Walk walk; walk.more(); walk.advance()) {
      const float* sample = x + walk.sample() * kSampleFloats;
      const int exponent = sample_exponent(largest, walk.sample());
      const int y0 = walk.first() * 2 * static_cast<int>(stride) - static_cast<int>(padding);
      for (int i = 0; i < walk.pairs(); ++i, ++pair) {
        wait_done(pair - 2);
        if (i == 0) {
          fill_ring(sample, y0, 8, slot, exponent, ring);
          wait_done(pair - 1);  // the other rows lie where the pair before this one still reads
          fill_ring(sample, y0 + 8, kFilter + 4 - 8, slot + 8, exponent, ring);
        } else {
          slot = (slot + 8) % kRing;
          fill_ring(sample, y0 + i * 8 + kFilter + 4 - 8, 8, slot + kFilter + 4 - 8, exponent, ring);
        }
        barrier_arrive(shared_address(&full[pair & 1]));
      }
      slot = (slot + kFilter + 4) % kRing;
    }
    return;
  }

  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const int even = min(16 * warp + g, kColumns - 1);
  const int odd = min(16 * warp + g + 8, kColumns - 1);
  // Step s = 3a + b: group 12a + 4b + t is group (4b + t) % 3 of filter row 4a + (4b + t) / 3.
  uint32_t offset[3];
#pragma unroll
  for (int b = 0; b < 3; ++b) offset[b] = (4 * b + t) / 3 * kRowBytes + (4 * b + t) % 3 * 8;
  const uint32_t last_offset = min(t, 2) * 8;  // group 100 does not exist; its weights are zero
  barrier_wait(shared_address(&filters_here), 0);

  for (Walk walk; walk.more(); walk.advance()) {
    const int sample = walk.sample();
    const float sample_scale = ldexpf(1.0f, -sample_exponent(largest, sample));
    for (int i = 0; i < walk.pairs(); ++i, ++pair) {
      if (i > 0) slot = (slot + 8) % kRing;
      barrier_wait(shared_address(&full[pair & 1]), pair / 2 & 1);
      float sums[2][48];
      Fragments fragments[2][2];  // [step parity][row of the pair]
      auto gather = [&](int step, int row, Fragments& into) {
        uint32_t at = (slot + 4 * row) * 3 * kRowBytes + step / 3 * 4 * kRowBytes +
                      (step == kSteps - 1 ? last_offset : offset[step % 3]);
        at = min(at, at - kRingPlane);  // wraps: an address below the ring's size underflows to a large one
        at += ring;
        const uint2 first = load8(at + even * 8);
        const uint2 second = load8(at + odd * 8);
        into.high[0] = first.x;
        into.high[1] = second.x;
        into.high[2] = first.y;
        into.high[3] = second.y;
        if (PRODUCTS > 1) {
          const uint2 third = load8(at + kRingPlane + even * 8);
          const uint2 fourth = load8(at + kRingPlane + odd * 8);
          into.low[0] = third.x;
          into.low[1] = fourth.x;
          into.low[2] = third.y;
          into.low[3] = fourth.y;
        }
      };
      gather(0, 0, fragments[0][0]);
      gather(0, 1, fragments[0][1]);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const uint64_t high = describe(filters + step * 32 * kChannels);
        const uint64_t low = describe(filters + kPlaneBytes + step * 32 * kChannels);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          multiply(sums[row], fragments[step & 1][row].high, high, step > 0);
          if (PRODUCTS > 1) {
            multiply(sums[row], fragments[step & 1][row].high, low, true);
            multiply(sums[row], fragments[step & 1][row].low, high, true);
          }
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if (step + 1 < kSteps) {
          asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
          gather(step + 1, 0, fragments[(step + 1) & 1][0]);
          gather(step + 1, 1, fragments[(step + 1) & 1][1]);
        }
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      barrier_arrive(shared_address(&done[pair & 1]));

#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = (walk.first() + i) * 2 + r;
        if (row >= kRows) break;
        float* result = out + (static_cast<int64_t>(sample) * kChannels * kRows + row) * kColumns;
#pragma unroll
        for (int n = 0; n < kChannels / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int channel = n * 8 + t * 2 + e;
            const float2 each = scale_and_bias[channel];
            float* line = result + static_cast<int64_t>(channel) * kRows * kColumns + 16 * warp + g;
            if (16 * warp + g < kColumns) line[0] = sums[r][n * 4 + e] * each.x * sample_scale + each.y;
            if (16 * warp + g + 8 < kColumns) line[8] = sums[r][n * 4 + 2 + e] * each.x * sample_scale + each.y;
          }
        }
      }
    }
    slot = (slot + kFilter + 4) % kRing;
  }
}

}  // namespace

extern "C" size_t conv2d_workspace() { return kWorkspace; }

extern "C" int conv2d(const float* x, const float* conv_weight, const float* conv_bias, float* out, void* workspace,
                      cudaStream_t stream) {
  unsigned char* bytes = static_cast<unsigned char*>(workspace);
  prepare<<<kSamples * kSampleSlices + kChannels, 256, 0, stream>>>(
      x, conv_weight, reinterpret_cast<__half*>(bytes), reinterpret_cast<int*>(bytes + kScalesAt),
      reinterpret_cast<float*>(bytes + kLargestAt));
  int device = 0;
  int processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaFuncSetAttribute(convolve, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  convolve<<<processors, 256, kShared, stream>>>(x, bytes, conv_bias, out);
  return cudaGetLastError();
}
