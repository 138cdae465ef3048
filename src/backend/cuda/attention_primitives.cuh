// What the attention kernels ask of a device: threads, shared memory, tensor cores. The tests have
// the same functions for the CPU.
#define VOLTA_DEVICE __device__ __forceinline__
#define VOLTA_UNROLL _Pragma("unroll")
#define VOLTA_NO_UNROLL _Pragma("unroll 1")

namespace volta_attention {

using u16 = unsigned short;
using u32 = unsigned;
using i64 = long long;

VOLTA_DEVICE int thread_number() { return static_cast<int>(threadIdx.x); }
VOLTA_DEVICE u32 block_number() { return blockIdx.x; }
VOLTA_DEVICE void synchronize() { __syncthreads(); }
// The value of the lane whose number differs in the bits of `mask`.
VOLTA_DEVICE float exchanged(float value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
VOLTA_DEVICE float exp2_of(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
VOLTA_DEVICE float log2_of(float x) {
  float result;
  asm("lg2.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
VOLTA_DEVICE float larger(float a, float b) { return fmaxf(a, b); }
VOLTA_DEVICE float float_of(u32 bits) { return __uint_as_float(bits); }

// ---- Shared memory, by its own addresses.
VOLTA_DEVICE u32 shared_memory() {
  extern __shared__ __align__(16) unsigned char memory[];
  u32 address;
  asm("{ .reg .u64 whole; cvta.to.shared.u64 whole, %1; cvt.u32.u64 %0, whole; }"
      : "=r"(address)
      : "l"(memory));
  return address;
}
VOLTA_DEVICE float load_shared(u32 address) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address));
  return value;
}
VOLTA_DEVICE void store_shared(u32 address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
VOLTA_DEVICE void store_shared(u32 address, const u32 (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}
// Copies 16 bytes from global memory, or zeros, without waiting.
VOLTA_DEVICE void copy_16(u32 to, const void* from, bool inside) {
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
VOLTA_DEVICE void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
VOLTA_DEVICE void wait_for_copies() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// ---- Tensor cores. Lanes 8i to 8i + 7 give the addresses of the rows of the i-th 8 x 8 matrix.
VOLTA_DEVICE void load_matrices(u32 (&to)[4], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row));
}
VOLTA_DEVICE void load_turned(u32 (&to)[4], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row));
}
// c[16 x 8] += a[16 x 16] b[16 x 8]
template <class V>
VOLTA_DEVICE void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if (V::bf16()) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// ---- Halves, two to a word.
VOLTA_DEVICE u32 packed(float low, float high, bool bf16) {
  u32 both;
  if (bf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  }
  return both;
}
VOLTA_DEVICE float widened(u16 half, bool bf16) {
  if (bf16) return __uint_as_float(static_cast<u32>(half) << 16);
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(half));
  return result;
}

}  // namespace volta_attention
