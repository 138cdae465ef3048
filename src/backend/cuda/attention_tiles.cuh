// The parts of the attention kernels: arguments, copies to shared memory, products of tiles, masks.
//
// A variant V says
//   kSize       the head size for which there is room, a multiple of 16; smaller heads are padded
//   kWarps      warps of a block of threads
//   kTiles      tiles of 16 rows that a warp keeps
//   kBlock      the rows of a block that is walked
//   kStep       how many of these are taken at once, a multiple of 16; in forward all of them
//   kParts      into how many parts the columns of the gradients of keys and values are cut
//   causal()    whether query i sees only the keys 0 to i
//   bf16()      the dtype, which is f16 otherwise
//   mask()      the kind of mask
namespace volta_attention {

enum class Mask { None, Boolean, F16, Bf16, F32, F64 };

// Where an operand [batch, heads, rows, columns] lies, in elements.
struct Place {
  i64 offset, batch, head, row;
};
struct MaskPlace {
  i64 offset, batch, head, row, column;
};
struct ResultPlace {
  i64 batch, head, row;
};

// The arguments of all kernels. backend/cuda/attention.cpp writes them in this order.
struct Numbers {
  i64 batch, heads, kv_heads, queries, keys, size;
  double scale;
  Place q, k, v, output, gain, logs;  // gain: the gradient of the output
  MaskPlace mask;
  ResultPlace results[3];
};

VOLTA_DEVICE float infinity() { return float_of(0x7f800000u); }

constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

template <class V>
constexpr int kThreads = V::kWarps * 32;
template <class V>
constexpr int kRows = V::kWarps * V::kTiles * 16;  // that a block of threads keeps
// Bytes from one row in shared memory to the next: the rows of an 8 x 8 matrix then lie in
// different banks.
template <class V>
constexpr int kPitch = V::kSize * 2 + 16;

// What a thread block works on.
struct Work {
  int batch, head, first;  // the first of its rows
};

template <class V>
VOLTA_DEVICE bool can_copy_16(const u16* head, i64 stride, i64 size) {
  return (reinterpret_cast<unsigned long long>(head) & 15) == 0 && stride % 8 == 0 && size % 8 == 0;
}

// Copies the rows from `first` on to shared memory. Rows and columns that do not exist are zeros.
// The copies are finished after wait_for_copies and synchronize.
template <class V, int kCount>
VOLTA_DEVICE void copy_rows(u32 to, const u16* from, i64 stride, int first, int rows, int size) {
  constexpr int kChunks = V::kSize / 8, kAll = kCount * kChunks;
  if (can_copy_16<V>(from, stride, size)) {
    VOLTA_UNROLL
    for (int i = 0; i < (kAll + kThreads<V> - 1) / kThreads<V>; ++i) {
      const int n = i * kThreads<V> + thread_number(), row = n / kChunks, chunk = n % kChunks;
      if (kAll % kThreads<V> != 0 && n >= kAll) break;
      const bool inside = first + row < rows && chunk * 8 < size;
      copy_16(to + static_cast<u32>(row * kPitch<V> + chunk * 16),
              inside ? from + (first + row) * stride + chunk * 8 : from, inside);
    }
    return;
  }
  VOLTA_NO_UNROLL
  for (int n = thread_number(); n < kAll; n += kThreads<V>) {
    const int row = n / kChunks, chunk = n % kChunks;
    u32 words[4] = {0, 0, 0, 0};
    if (first + row < rows) {
      const u16* const start = from + (first + row) * stride + chunk * 8;
      VOLTA_UNROLL
      for (int i = 0; i < 8; ++i) {
        if (chunk * 8 + i < size) words[i / 2] |= static_cast<u32>(start[i]) << (i % 2 * 16);
      }
    }
    store_shared(to + static_cast<u32>(row * kPitch<V> + chunk * 16), words);
  }
}

// Where a lane's rows of matrices lie in a 16 x 16 part of an array in shared memory: as the left
// operand of a product, or turned as the right one (by_rows); or as a right operand whose columns
// are rows of the array (by_columns).
template <class V>
VOLTA_DEVICE u32 by_rows(int lane) {
  return static_cast<u32>((lane & 15) * kPitch<V> + (lane >> 4) * 16);
}
template <class V>
VOLTA_DEVICE u32 by_columns(int lane) {
  return static_cast<u32>(((lane & 7) + (lane >> 4) * 8) * kPitch<V> + (lane >> 3 & 1) * 16);
}
template <class V>
VOLTA_DEVICE constexpr u32 at(int row, int column) {
  return static_cast<u32>(row * kPitch<V> + column * 2);
}

// A warp's rows as the left operand of products: where they lie in shared memory, or the rows
// themselves if a product with few columns would wait for them.
template <class V, bool kHeld>
struct OwnRows {
  u32 place;
  u32 held[kHeld ? V::kTiles : 1][kHeld ? V::kSize / 16 : 1][4];

  VOLTA_DEVICE void take(u32 from) {
    place = from;
    if (!kHeld) return;
    VOLTA_UNROLL
    for (int t = 0; t < V::kTiles; ++t) {
      VOLTA_UNROLL
      for (int k = 0; k < V::kSize; k += 16)
        load_matrices(held[kHeld ? t : 0][kHeld ? k / 16 : 0], place + at<V>(16 * t, k));
    }
  }
  VOLTA_DEVICE void load(u32 (&to)[4], int t, int k) const {
    if (!kHeld) return load_matrices(to, place + at<V>(16 * t, k));
    VOLTA_UNROLL
    for (int i = 0; i < 4; ++i) to[i] = held[kHeld ? t : 0][kHeld ? k / 16 : 0][i];
  }
};

// c = a b^T for a warp's own rows and kStep rows of `b`, which lie in shared memory.
template <class V, bool kHeld>
VOLTA_DEVICE void multiply_rows(float (&c)[V::kTiles][V::kStep / 8][4], const OwnRows<V, kHeld>& a,
                                u32 b) {
  VOLTA_UNROLL
  for (int t = 0; t < V::kTiles; ++t) {
    VOLTA_UNROLL
    for (int n = 0; n < V::kStep / 8; ++n) {
      VOLTA_UNROLL
      for (int i = 0; i < 4; ++i) c[t][n][i] = 0;
    }
  }
  VOLTA_UNROLL
  for (int k = 0; k < V::kSize; k += 16) {
    u32 left[V::kTiles][4];
    VOLTA_UNROLL
    for (int t = 0; t < V::kTiles; ++t) a.load(left[t], t, k);
    VOLTA_UNROLL
    for (int n = 0; n < V::kStep / 16; ++n) {
      u32 right[4];
      load_matrices(right, b + at<V>(16 * n, k));
      VOLTA_UNROLL
      for (int t = 0; t < V::kTiles; ++t) {
        multiply<V>(c[t][2 * n], left[t], right[0], right[1]);
        multiply<V>(c[t][2 * n + 1], left[t], right[2], right[3]);
      }
    }
  }
}

// sum += w b for weights in registers, rounded to halves, and kStep rows of b in shared memory, of
// which kColumns columns are taken.
template <class V, int kColumns>
VOLTA_DEVICE void add_product(float (&sum)[V::kTiles][kColumns / 8][4],
                              const float (&w)[V::kTiles][V::kStep / 8][4], u32 b) {
  VOLTA_UNROLL
  for (int k = 0; k < V::kStep / 16; ++k) {
    u32 left[V::kTiles][4];
    VOLTA_UNROLL
    for (int t = 0; t < V::kTiles; ++t) {
      VOLTA_UNROLL
      for (int i = 0; i < 4; ++i) {
        left[t][i] =
            packed(w[t][2 * k + i / 2][i % 2 * 2], w[t][2 * k + i / 2][i % 2 * 2 + 1], V::bf16());
      }
    }
    VOLTA_UNROLL
    for (int n = 0; n < kColumns / 16; ++n) {
      u32 right[4];
      load_turned(right, b + at<V>(16 * k, 16 * n));
      VOLTA_UNROLL
      for (int t = 0; t < V::kTiles; ++t) {
        multiply<V>(sum[t][2 * n], left[t], right[0], right[1]);
        multiply<V>(sum[t][2 * n + 1], left[t], right[2], right[3]);
      }
    }
  }
}

// The mask of one head of queries.
class HeadMask {
 public:
  template <class V>
  VOLTA_DEVICE static HeadMask of(const void* memory, const Numbers& n, int batch, int head) {
    HeadMask mask;
    mask.memory_ = memory;
    mask.start_ = n.mask.offset + batch * n.mask.batch + head * n.mask.head;
    mask.row_ = n.mask.row;
    mask.column_ = n.mask.column;
    return mask;
  }
  // Whether all queries see the same.
  VOLTA_DEVICE bool is_one_row() const { return row_ == 0; }
  // What is added to a score, in units of the binary logarithm.
  template <class V>
  VOLTA_DEVICE float term(int query, int key) const {
    const float nothing = -infinity();
    const i64 i = start_ + query * row_ + key * column_;
    switch (V::mask()) {
      case Mask::None:
        break;
      case Mask::Boolean:
        return static_cast<const unsigned char*>(memory_)[i] != 0 ? 0.0f : nothing;
      case Mask::F16:
        return widened(static_cast<const u16*>(memory_)[i], false) * kLog2E;
      case Mask::Bf16:
        return widened(static_cast<const u16*>(memory_)[i], true) * kLog2E;
      case Mask::F32:
        return static_cast<const float*>(memory_)[i] * kLog2E;
      case Mask::F64:
        return static_cast<float>(static_cast<const double*>(memory_)[i]) * kLog2E;
    }
    return 0;
  }

 private:
  const void* memory_;
  i64 start_, row_, column_;
};

// A warp's tiles of scores: kTiles times 16 rows by kStep columns. Lane 4 g + t has elements of the
// rows g and g + 8 in the columns 2 t and 2 t + 1 of each 8.
struct Region {
  int row, column;  // of this lane's first element in the whole matrix of scores
};

template <class V>
VOLTA_DEVICE int row_of(const Region& at, int tile, int i) {
  return at.row + 16 * tile + 8 * (i / 2);
}
VOLTA_DEVICE int column_of(const Region& at, int n, int i) { return at.column + 8 * n + i % 2; }

// Scores without a mask are scaled where they are used, if the scale is positive: a product and a
// sum are then one instruction, and the largest score is still the largest. Returns that scale, in
// units of the binary logarithm; 1 if finish_scores applies it.
template <class V>
VOLTA_DEVICE float late_scale(const Numbers& n) {
  const float scale = static_cast<float>(n.scale) * kLog2E;
  return V::mask() == Mask::None && scale > 0 ? scale : 1.0f;
}

// Scales the scores to units of the binary logarithm unless that is done late, and applies the
// mask. Those of keys that a query does not see, or that do not exist, become -inf. kKeysFirst:
// rows are keys.
template <class V, bool kKeysFirst>
VOLTA_DEVICE void finish_scores(float (&s)[V::kTiles][V::kStep / 8][4], const Region& region,
                                const Numbers& n, const HeadMask& mask, bool at_edge) {
  const float nothing = -infinity();
  const float whole = static_cast<float>(n.scale) * kLog2E;
  const bool late = V::mask() == Mask::None && whole > 0;
  const float scale = late ? 1.0f : whole;
  const int queries = static_cast<int>(n.queries), keys = static_cast<int>(n.keys);
  if (late && !at_edge) return;
  VOLTA_UNROLL
  for (int k = 0; k < V::kStep / 8; ++k) {
    VOLTA_UNROLL
    for (int parity = 0; parity < 2; ++parity) {
      float term = 0;
      VOLTA_UNROLL
      for (int t = 0; t < V::kTiles; ++t) {
        VOLTA_UNROLL
        for (int half = 0; half < 2; ++half) {
          const int i = 2 * half + parity;
          const int row = row_of<V>(region, t, i), column = column_of(region, k, i);
          const int query = kKeysFirst ? column : row, key = kKeysFirst ? row : column;
          const bool seen = key < keys && (!V::causal() || key <= query);
          if (V::mask() != Mask::None) {
            // Where all queries see the same, the keys of one column have one term.
            if (kKeysFirst || !mask.is_one_row() || (t == 0 && half == 0)) {
              const bool exists = key < keys && (query < queries || mask.is_one_row());
              term = exists ? mask.template term<V>(query, key) : 0.0f;
            }
          }
          // A mask's -inf also covers scores that are NaN if it is boolean.
          const bool hidden = !seen || (V::mask() == Mask::Boolean && term == nothing);
          s[t][k][i] = hidden ? nothing : s[t][k][i] * scale + term;
        }
      }
    }
  }
}

// Stores two neighbouring elements of a row of results.
VOLTA_DEVICE void store_pair(u16* row, int column, int size, u32 both) {
  if (column + 1 < size && (reinterpret_cast<unsigned long long>(row) & 3) == 0) {
    *reinterpret_cast<u32*>(row + column) = both;
    return;
  }
  if (column < size) row[column] = static_cast<u16>(both);
  if (column + 1 < size) row[column + 1] = static_cast<u16>(both >> 16);
}

// Stores a warp's rows of a result, or kColumns of its columns from `first_column` on.
template <class V, int kColumns>
VOLTA_DEVICE void store_rows(u16* head, i64 stride, const float (&x)[V::kTiles][kColumns / 8][4],
                             int row, int rows, int first_column, int size) {
  const int lane = thread_number() & 31;
  VOLTA_UNROLL
  for (int t = 0; t < V::kTiles; ++t) {
    VOLTA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int r = row + 16 * t + 8 * half + (lane >> 2);
      if (r >= rows) continue;
      u16* const to = head + r * stride;
      VOLTA_UNROLL
      for (int n = 0; n < kColumns / 8; ++n) {
        store_pair(to, first_column + 8 * n + 2 * (lane & 3), size,
                   packed(x[t][n][2 * half], x[t][n][2 * half + 1], V::bf16()));
      }
    }
  }
}

template <int kTiles, int kCount>
VOLTA_DEVICE void clear(float (&x)[kTiles][kCount][4]) {
  VOLTA_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    VOLTA_UNROLL
    for (int n = 0; n < kCount; ++n) {
      VOLTA_UNROLL
      for (int i = 0; i < 4; ++i) x[t][n][i] = 0;
    }
  }
}

}  // namespace volta_attention
