// Attention in f16 and bf16 on tensor cores: softmax(q k^T scale + mask) v and its gradient,
// without ever storing the scores. A block of threads keeps some rows (queries, or keys for the
// gradients of keys and values) and walks the others in blocks, which the next copy brings to
// shared memory while the tensor cores work on the present one. All sizes are arguments.
//
// The text of the three files attention_*.cuh is compiled twice: by NVRTC for devices, and by a C++
// compiler for the tests, which have primitives for the CPU.
namespace volta_attention {

// The work of a thread block that keeps queries. Under a causal mask the last queries see most
// keys, so they come first.
template <class V>
VOLTA_DEVICE Work queries_of_block(const Numbers& n) {
  const u32 blocks = static_cast<u32>((n.queries + kRows<V> - 1) / kRows<V>),
            heads = static_cast<u32>(n.heads), number = block_number();
  const u32 head = number / blocks;
  return {static_cast<int>(head / heads), static_cast<int>(head % heads),
          static_cast<int>(blocks - 1 - number % blocks) * kRows<V>};
}
// The number of keys that some of the kept queries see.
template <class V>
VOLTA_DEVICE int keys_seen(const Numbers& n, int first) {
  const int keys = static_cast<int>(n.keys), seen = first + kRows<V>;
  return V::causal() && seen < keys ? seen : keys;
}

VOLTA_DEVICE const u16* head_of(const u16* memory, const Place& place, int batch, int head) {
  return memory + (place.offset + batch * place.batch + head * place.head);
}
VOLTA_DEVICE u16* head_of(u16* memory, const ResultPlace& place, int batch, int head) {
  return memory + (batch * place.batch + head * place.head);
}

// ---- Forward. The weights of a row are exp2(score - top), where top is the largest score so far;
// what was added up is scaled down when a larger one comes.
template <class V>
struct SoftmaxRows {
  float top[V::kTiles][2], sum[V::kTiles][2];  // of the rows g and g + 8; sums of this lane only
  float output[V::kTiles][V::kSize / 8][4];

  VOLTA_DEVICE void begin() {
    clear(output);
    VOLTA_UNROLL
    for (int t = 0; t < V::kTiles; ++t) {
      VOLTA_UNROLL
      for (int half = 0; half < 2; ++half) {
        top[t][half] = -infinity();
        sum[t][half] = 0;
      }
    }
  }
  // Turns scores, times `scale`, into weights.
  VOLTA_DEVICE void weigh(float (&s)[V::kTiles][V::kStep / 8][4], float scale) {
    VOLTA_UNROLL
    for (int t = 0; t < V::kTiles; ++t) {
      VOLTA_UNROLL
      for (int half = 0; half < 2; ++half) {
        float largest = -infinity();
        VOLTA_UNROLL
        for (int n = 0; n < V::kStep / 8; ++n)
          largest = larger(largest, larger(s[t][n][2 * half], s[t][n][2 * half + 1]));
        largest = larger(top[t][half], largest * scale);
        largest = larger(largest, exchanged(largest, 1));
        largest = larger(largest, exchanged(largest, 2));
        const float base = largest == -infinity() ? 0.0f : largest;
        const float kept = exp2_of(top[t][half] - base);
        top[t][half] = largest;
        float added = 0;
        VOLTA_UNROLL
        for (int n = 0; n < V::kStep / 8; ++n) {
          VOLTA_UNROLL
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            s[t][n][i] = exp2_of(s[t][n][i] * scale - base);
            added += s[t][n][i];
          }
        }
        sum[t][half] = sum[t][half] * kept + added;
        VOLTA_UNROLL
        for (int n = 0; n < V::kSize / 8; ++n) {
          output[t][n][2 * half] *= kept;
          output[t][n][2 * half + 1] *= kept;
        }
      }
    }
  }
  // Divides by the sums, and stores the logarithms.
  VOLTA_DEVICE void finish(float* logs, int row, int rows) {
    const int lane = thread_number() & 31;
    VOLTA_UNROLL
    for (int t = 0; t < V::kTiles; ++t) {
      VOLTA_UNROLL
      for (int half = 0; half < 2; ++half) {
        float all = sum[t][half];
        all += exchanged(all, 1);
        all += exchanged(all, 2);
        const bool unseen = all == 0;
        const float factor = unseen ? 0.0f : 1 / all;
        VOLTA_UNROLL
        for (int n = 0; n < V::kSize / 8; ++n) {
          output[t][n][2 * half] *= factor;
          output[t][n][2 * half + 1] *= factor;
        }
        const int r = row + 16 * t + 8 * half + (lane >> 2);
        if ((lane & 3) == 0 && r < rows)
          logs[r] = unseen ? infinity() : (top[t][half] + log2_of(all)) * kLn2;
      }
    }
  }
};

template <class V>
VOLTA_DEVICE void forward(const u16* q, const u16* k, const u16* v, const void* mask_memory,
                          u16* output, float* logs, const Numbers& n) {
  static_assert(V::kStep == V::kBlock);
  const Work work = queries_of_block<V>(n);
  const int lane = thread_number() & 31, size = static_cast<int>(n.size);
  const int kv_head = work.head / static_cast<int>(n.heads / n.kv_heads);
  const u16 *const keys = head_of(k, n.k, work.batch, kv_head), *const values = head_of(
                                                                    v, n.v, work.batch, kv_head);
  const int key_count = static_cast<int>(n.keys), seen = keys_seen<V>(n, work.first);
  const int row = work.first + thread_number() / 32 * (16 * V::kTiles);  // the warp's first query
  const HeadMask mask = HeadMask::of<V>(mask_memory, n, work.batch, work.head);

  // Shared memory: the queries, then two places for blocks of keys and values.
  constexpr u32 kQueryBytes = kRows<V> * kPitch<V>, kBlockBytes = V::kBlock * kPitch<V>;
  const u32 shared = shared_memory(), blocks = shared + kQueryBytes;
  const auto copy_block = [&](int first, u32 to) {
    copy_rows<V, V::kBlock>(to, keys, n.k.row, first, key_count, size);
    copy_rows<V, V::kBlock>(to + kBlockBytes, values, n.v.row, first, key_count, size);
  };
  copy_rows<V, kRows<V>>(shared, head_of(q, n.q, work.batch, work.head), n.q.row, work.first,
                         static_cast<int>(n.queries), size);
  copy_block(0, blocks);
  end_copies();

  SoftmaxRows<V> rows;
  rows.begin();
  const float scale = late_scale<V>(n);
  wait_for_copies();
  synchronize();
  OwnRows<V, V::kSize * V::kTiles <= 128> own;
  own.take(shared + at<V>(row - work.first, 0) + by_rows<V>(lane));
  u32 present = blocks;
  VOLTA_NO_UNROLL
  for (int first = 0; first < seen; first += V::kBlock) {
    if (first > 0) {
      wait_for_copies();
      synchronize();
    }
    if (first + V::kBlock < seen) {
      copy_block(first + V::kBlock, 2 * blocks + 2 * kBlockBytes - present);
      end_copies();
    }
    if (row < n.queries && (!V::causal() || first < row + 16 * V::kTiles)) {
      float s[V::kTiles][V::kStep / 8][4];
      multiply_rows<V>(s, own, present + by_columns<V>(lane));
      const int last = first + V::kBlock - 1;
      finish_scores<V, false>(s, {row + (lane >> 2), first + 2 * (lane & 3)}, n, mask,
                              last >= key_count || (V::causal() && last > row));
      rows.weigh(s, scale);
      add_product<V, V::kSize>(rows.output, s, present + kBlockBytes + by_rows<V>(lane));
    }
    present = 2 * blocks + 2 * kBlockBytes - present;
  }
  const int query_count = static_cast<int>(n.queries);
  rows.finish(logs + (work.batch * n.heads + work.head) * n.queries, row, query_count);
  store_rows<V, V::kSize>(head_of(output, n.results[0], work.batch, work.head), n.results[0].row,
                          rows.output, row, query_count, 0, size);
}

// ---- Backward. With the weights p = exp(score - logarithm) and the gains d = g v^T, the gradient
// of a score is p (d - sum), where sum is that of output times gradient over the row.

// Stores the sums of the kept rows in shared memory, and in global memory for the other kernel.
template <class V>
VOLTA_DEVICE void sum_rows(u32 to, float* sums, const u16* output, i64 output_stride,
                           const u16* gain, i64 gain_stride, int first, int rows, int size) {
  constexpr int kLanes = 8;  // that share a row
  const int lane = thread_number() % kLanes;
  const bool wide =
      can_copy_16<V>(output, output_stride, size) && can_copy_16<V>(gain, gain_stride, size);
  VOLTA_NO_UNROLL
  for (int r = thread_number() / kLanes; r < kRows<V>; r += kThreads<V> / kLanes) {
    float sum = 0;
    if (first + r < rows) {
      const u16 *const y = output + (first + r) * output_stride, *const g = gain + (first + r) *
                                                                                       gain_stride;
      if (wide) {
        VOLTA_NO_UNROLL
        for (int column = 8 * lane; column < size; column += 8 * kLanes) {
          struct alignas(16) Eight {
            u16 halves[8];
          };
          const Eight a = *reinterpret_cast<const Eight*>(y + column),
                      b = *reinterpret_cast<const Eight*>(g + column);
          VOLTA_UNROLL
          for (int i = 0; i < 8; ++i)
            sum += widened(a.halves[i], V::bf16()) * widened(b.halves[i], V::bf16());
        }
      } else {
        VOLTA_NO_UNROLL
        for (int column = lane; column < size; column += kLanes)
          sum += widened(y[column], V::bf16()) * widened(g[column], V::bf16());
      }
    }
    VOLTA_UNROLL
    for (int mask = 1; mask < kLanes; mask *= 2) sum += exchanged(sum, mask);
    if (lane != 0) continue;
    store_shared(to + static_cast<u32>(4 * r), sum);
    if (first + r < rows) sums[first + r] = sum;
  }
}

// Turns scores s (times `late`) and gains d into weights, in s, and gradients of scores, in d. The
// logarithms (in units of the binary one) and sums are those of row i / 2 of a tile or, if rows are
// keys, those of each column.
template <class V, class OfQuery>
VOLTA_DEVICE void differentiate(float (&s)[V::kTiles][V::kStep / 8][4],
                                float (&d)[V::kTiles][V::kStep / 8][4], float late, float scale,
                                const OfQuery& of_query) {
  VOLTA_UNROLL
  for (int k = 0; k < V::kStep / 8; ++k) {
    VOLTA_UNROLL
    for (int t = 0; t < V::kTiles; ++t) {
      VOLTA_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float p = exp2_of(s[t][k][i] * late - of_query.log(t, k, i));
        s[t][k][i] = p;
        d[t][k][i] = p * scale * (d[t][k][i] - of_query.sum(t, k, i));
      }
    }
  }
}

// The gradient of queries; also the sums for the kernel below, which runs next.
template <class V>
struct OfOwnRows {
  float logs[V::kTiles][2], sums[V::kTiles][2];
  VOLTA_DEVICE float log(int t, int, int i) const { return logs[t][i / 2]; }
  VOLTA_DEVICE float sum(int t, int, int i) const { return sums[t][i / 2]; }
};

template <class V>
VOLTA_DEVICE void queries_gradient(const u16* q, const u16* k, const u16* v, const u16* output,
                                   const u16* gain, const float* logs, const void* mask_memory,
                                   u16* result, float* sums, const Numbers& n) {
  const Work work = queries_of_block<V>(n);
  const int lane = thread_number() & 31, size = static_cast<int>(n.size);
  const int kv_head = work.head / static_cast<int>(n.heads / n.kv_heads);
  const u16 *const keys = head_of(k, n.k, work.batch, kv_head), *const values = head_of(
                                                                    v, n.v, work.batch, kv_head);
  const int key_count = static_cast<int>(n.keys), query_count = static_cast<int>(n.queries);
  const int seen = keys_seen<V>(n, work.first);
  const int row = work.first + thread_number() / 32 * (16 * V::kTiles);
  const HeadMask mask = HeadMask::of<V>(mask_memory, n, work.batch, work.head);
  const u16* const gains = head_of(gain, n.gain, work.batch, work.head);

  // Shared memory: queries and gains, the sums of their rows, two places for keys and values.
  constexpr u32 kQueryBytes = kRows<V> * kPitch<V>, kBlockBytes = V::kBlock * kPitch<V>;
  const u32 shared = shared_memory(), row_sums = shared + 2 * kQueryBytes,
            blocks = row_sums + 4 * kRows<V>;
  const auto copy_block = [&](int first, u32 to) {
    copy_rows<V, V::kBlock>(to, keys, n.k.row, first, key_count, size);
    copy_rows<V, V::kBlock>(to + kBlockBytes, values, n.v.row, first, key_count, size);
  };
  copy_rows<V, kRows<V>>(shared, head_of(q, n.q, work.batch, work.head), n.q.row, work.first,
                         query_count, size);
  copy_rows<V, kRows<V>>(shared + kQueryBytes, gains, n.gain.row, work.first, query_count, size);
  copy_block(0, blocks);
  end_copies();
  sum_rows<V>(row_sums, sums + (work.batch * n.heads + work.head) * n.queries,
              head_of(output, n.output, work.batch, work.head), n.output.row, gains, n.gain.row,
              work.first, query_count, size);
  synchronize();

  OfOwnRows<V> own;
  const float* const head_logs =
      logs + (n.logs.offset + work.batch * n.logs.batch + work.head * n.logs.head);
  VOLTA_UNROLL
  for (int t = 0; t < V::kTiles; ++t) {
    VOLTA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int r = row + 16 * t + 8 * half + (lane >> 2);
      own.logs[t][half] = r < query_count ? head_logs[r * n.logs.row] * kLog2E : infinity();
      own.sums[t][half] = load_shared(row_sums + static_cast<u32>(4 * (r - work.first)));
    }
  }
  float total[V::kTiles][V::kSize / 8][4];
  clear(total);
  const float scale = static_cast<float>(n.scale), late = late_scale<V>(n);
  OwnRows<V, false> own_queries, own_gains;
  own_queries.take(shared + at<V>(row - work.first, 0) + by_rows<V>(lane));
  own_gains.take(own_queries.place + kQueryBytes);
  u32 present = blocks;
  VOLTA_NO_UNROLL
  for (int first = 0; first < seen; first += V::kBlock) {
    wait_for_copies();
    synchronize();
    if (first + V::kBlock < seen) {
      copy_block(first + V::kBlock, 2 * blocks + 2 * kBlockBytes - present);
      end_copies();
    }
    if (row < query_count) {
      VOLTA_NO_UNROLL
      for (int step = 0; step < V::kBlock; step += V::kStep) {
        const int key = first + step, last = key + V::kStep - 1;
        if (key >= key_count || (V::causal() && key >= row + 16 * V::kTiles)) break;
        const u32 here = present + at<V>(step, 0);
        float s[V::kTiles][V::kStep / 8][4], d[V::kTiles][V::kStep / 8][4];
        multiply_rows<V>(s, own_queries, here + by_columns<V>(lane));
        multiply_rows<V>(d, own_gains, here + kBlockBytes + by_columns<V>(lane));
        finish_scores<V, false>(s, {row + (lane >> 2), key + 2 * (lane & 3)}, n, mask,
                                last >= key_count || (V::causal() && last > row));
        differentiate<V>(s, d, late, scale, own);
        add_product<V, V::kSize>(total, d, here + by_rows<V>(lane));
      }
    }
    present = 2 * blocks + 2 * kBlockBytes - present;
  }
  store_rows<V, V::kSize>(head_of(result, n.results[0], work.batch, work.head), n.results[0].row,
                          total, row, query_count, 0, size);
}

// The gradients of keys and values. The kept rows are keys; what is walked are the queries of all
// heads that share them.
struct OfColumns {
  u32 logs;  // of this lane's first column, in shared memory
  int count;
  VOLTA_DEVICE float log(int, int k, int i) const {
    return load_shared(logs + static_cast<u32>(4 * (8 * k + i % 2)));
  }
  VOLTA_DEVICE float sum(int, int k, int i) const {
    return load_shared(logs + static_cast<u32>(4 * (count + 8 * k + i % 2)));
  }
};

template <class V>
VOLTA_DEVICE void keys_gradient(const u16* q, const u16* k, const u16* v, const u16* gain,
                                const float* logs, const float* sums, const void* mask_memory,
                                u16* keys_result, u16* values_result, const Numbers& n) {
  constexpr int kColumns = V::kSize / V::kParts;  // of the results
  static_assert(kColumns % 16 == 0);
  const int key_count = static_cast<int>(n.keys), query_count = static_cast<int>(n.queries);
  const int lane = thread_number() & 31, size = static_cast<int>(n.size);
  const int group = static_cast<int>(n.heads / n.kv_heads);
  const u32 key_blocks = static_cast<u32>((key_count + kRows<V> - 1) / kRows<V>),
            kv_heads = static_cast<u32>(n.kv_heads);
  const u32 part = block_number() % V::kParts, number = block_number() / V::kParts;
  const int first_key = static_cast<int>(number % key_blocks) * kRows<V>,
            kv_head = static_cast<int>(number / key_blocks % kv_heads),
            batch = static_cast<int>(number / key_blocks / kv_heads);
  const int first_column = static_cast<int>(part) * kColumns;
  const int row = first_key + thread_number() / 32 * (16 * V::kTiles);  // the warp's first key

  // Shared memory: keys and values, then two places for blocks of queries, gains, logarithms, sums.
  constexpr u32 kKeyBytes = kRows<V> * kPitch<V>, kBlockBytes = V::kBlock * kPitch<V>,
                kPlaceBytes = 2 * kBlockBytes + 8 * V::kBlock;
  const u32 shared = shared_memory(), blocks = shared + 2 * kKeyBytes;
  const int begin = V::causal() ? first_key / V::kBlock * V::kBlock : 0;
  const auto copy_block = [&](int head, int first, u32 to) {
    copy_rows<V, V::kBlock>(to, head_of(q, n.q, batch, head), n.q.row, first, query_count, size);
    copy_rows<V, V::kBlock>(to + kBlockBytes, head_of(gain, n.gain, batch, head), n.gain.row, first,
                            query_count, size);
    for (int i = thread_number(); i < V::kBlock; i += kThreads<V>) {
      const bool exists = first + i < query_count;
      const i64 head_logs = n.logs.offset + batch * n.logs.batch + head * n.logs.head,
                head_sums = (batch * n.heads + head) * n.queries;
      const u32 place = to + 2 * kBlockBytes + static_cast<u32>(4 * i);
      store_shared(place,
                   exists ? logs[head_logs + (first + i) * n.logs.row] * kLog2E : infinity());
      store_shared(place + 4 * V::kBlock, exists ? sums[head_sums + first + i] : 0.0f);
    }
  };
  float keys_total[V::kTiles][kColumns / 8][4], values_total[V::kTiles][kColumns / 8][4];
  clear(keys_total);
  clear(values_total);
  int head = kv_head * group, first = begin;
  const int end_head = head + group;
  if (begin < query_count) {
    copy_rows<V, kRows<V>>(shared, head_of(k, n.k, batch, kv_head), n.k.row, first_key, key_count,
                           size);
    copy_rows<V, kRows<V>>(shared + kKeyBytes, head_of(v, n.v, batch, kv_head), n.v.row, first_key,
                           key_count, size);
    copy_block(head, first, blocks);
    end_copies();
  } else {
    head = end_head;
  }
  const float scale = static_cast<float>(n.scale), late = late_scale<V>(n);
  OwnRows<V, false> own_keys, own_values;
  own_keys.take(shared + at<V>(row - first_key, 0) + by_rows<V>(lane));
  own_values.take(own_keys.place + kKeyBytes);
  u32 present = blocks;
  VOLTA_NO_UNROLL
  while (head < end_head) {
    const bool last_block = first + V::kBlock >= query_count;
    const int next_head = last_block ? head + 1 : head,
              next_first = last_block ? begin : first + V::kBlock;
    wait_for_copies();
    synchronize();
    if (next_head < end_head) {
      copy_block(next_head, next_first, 2 * blocks + kPlaceBytes - present);
      end_copies();
    }
    if (row < key_count) {
      const HeadMask mask = HeadMask::of<V>(mask_memory, n, batch, head);
      VOLTA_NO_UNROLL
      for (int step = 0; step < V::kBlock; step += V::kStep) {
        const int query = first + step;
        if (query >= query_count) break;
        if (V::causal() && query + V::kStep <= row) continue;
        const u32 here = present + at<V>(step, 0);
        float s[V::kTiles][V::kStep / 8][4], d[V::kTiles][V::kStep / 8][4];
        multiply_rows<V>(s, own_keys, here + by_columns<V>(lane));
        multiply_rows<V>(d, own_values, here + kBlockBytes + by_columns<V>(lane));
        finish_scores<V, true>(s, {row + (lane >> 2), query + 2 * (lane & 3)}, n, mask,
                               V::causal() && query < row + 16 * V::kTiles - 1);
        const u32 of_lane = static_cast<u32>(4 * (step + 2 * (lane & 3)));
        differentiate<V>(s, d, late, scale,
                         OfColumns{present + 2 * kBlockBytes + of_lane, V::kBlock});
        const u32 columns = here + by_rows<V>(lane) + at<V>(0, first_column);
        add_product<V, kColumns>(values_total, s, columns + kBlockBytes);
        add_product<V, kColumns>(keys_total, d, columns);
      }
    }
    present = 2 * blocks + kPlaceBytes - present;
    head = next_head;
    first = next_first;
  }
  store_rows<V, kColumns>(head_of(keys_result, n.results[1], batch, kv_head), n.results[1].row,
                          keys_total, row, key_count, first_column, size);
  store_rows<V, kColumns>(head_of(values_result, n.results[2], batch, kv_head), n.results[2].row,
                          values_total, row, key_count, first_column, size);
}

}  // namespace volta_attention
