#include "cuda/module/kernels.cuh"

// The gradient sorts the places by their ids (stable, 8 bits at a time) and adds up the runs of
// equal ids in that order, in f32: the same bits every time, which atomic additions are not.

namespace forecost::cuda {

template <class T>
struct Gather {
  const std::int64_t* ids;
  const T* table;
  T* y;
  std::int64_t features;

  template <int n>
  __device__ void run(std::int64_t i) const {
    store<n>(y + i, load<n>(table + ids[i / features] * features + i % features));
  }
};

template <class T>
struct Zero {
  T* to;
  template <int n>
  __device__ void run(std::int64_t i) const {
    store<n>(to + i, all_of<n>(0));
  }
};

// --- sorting ---

inline constexpr int digits = 256, sort_threads = 256, sort_rounds = 8,
                     sort_tile = sort_threads * sort_rounds;

/// Ids and the places that they came from.
struct Keys {
  unsigned *ids, *places;
};

struct FirstKeys {
  const std::int64_t* ids;
  Keys to;
  template <int n>
  __device__ void run(std::int64_t i) const {
#pragma unroll
    for (int k = 0; k < n; ++k) {
      to.ids[i + k] = static_cast<unsigned>(ids[i + k]);
      to.places[i + k] = static_cast<unsigned>(i + k);
    }
  }
};

/// How often each digit is in each block's tile: digits x blocks.
__global__ void __launch_bounds__(sort_threads)
    count_digits(const unsigned* ids, unsigned count, int shift, unsigned* counts) {
  __shared__ unsigned own[digits];
  own[threadIdx.x] = 0;
  __syncthreads();
  for (int round = 0; round < sort_rounds; ++round) {
    const unsigned i = blockIdx.x * sort_tile + round * sort_threads + threadIdx.x;
    if (i < count) atomicAdd(&own[ids[i] >> shift & (digits - 1)], 1U);
  }
  __syncthreads();
  counts[threadIdx.x * gridDim.x + blockIdx.x] = own[threadIdx.x];
}

/// Makes of `count` numbers the sums of those before each. One block.
__global__ void __launch_bounds__(1024) scan_counts(unsigned* counts, unsigned count) {
  const unsigned share = (count + blockDim.x - 1) / blockDim.x, begin = threadIdx.x * share,
                 end = begin + share < count ? begin + share : count;
  unsigned sum = 0;
  for (unsigned i = begin; i < end; ++i) sum += counts[i];
  // Sums up to each thread, of its warp and then of the warps before.
  unsigned up_to = sum;
#pragma unroll
  for (int distance = 1; distance < warp; distance *= 2) {
    const unsigned other = __shfl_up_sync(0xFFFFFFFFU, up_to, distance);
    if (static_cast<int>(threadIdx.x % warp) >= distance) up_to += other;
  }
  __shared__ unsigned of_warps[warp];
  if (threadIdx.x % warp == warp - 1) of_warps[threadIdx.x / warp] = up_to;
  __syncthreads();
  unsigned before = up_to - sum;
  for (unsigned i = 0; i < threadIdx.x / warp; ++i) before += of_warps[i];
  for (unsigned i = begin; i < end; ++i) {
    const unsigned own = counts[i];
    counts[i] = before;
    before += own;
  }
}

/// Moves each key to where its digit begins, behind those of the same digit before it.
__global__ void __launch_bounds__(sort_threads)
    scatter_keys(Keys from, Keys to, unsigned count, int shift, const unsigned* firsts) {
  constexpr int warps = sort_threads / warp;
  __shared__ unsigned next[digits], of_warps[warps][digits];
  const unsigned own_warp = threadIdx.x / warp, lane = threadIdx.x % warp;
  next[threadIdx.x] = firsts[threadIdx.x * gridDim.x + blockIdx.x];
  for (int round = 0; round < sort_rounds; ++round) {
    for (int w = 0; w < warps; ++w) of_warps[w][threadIdx.x] = 0;
    __syncthreads();
    const unsigned i = blockIdx.x * sort_tile + round * sort_threads + threadIdx.x;
    const bool within = i < count;
    const unsigned id = within ? from.ids[i] : 0, digit = id >> shift & (digits - 1);
    // Lanes with the same digit.
    unsigned peers = __ballot_sync(0xFFFFFFFFU, within);
#pragma unroll
    for (int bit = 0; bit < 8; ++bit) {
      const unsigned set = __ballot_sync(0xFFFFFFFFU, digit >> bit & 1);
      peers &= (digit >> bit & 1) != 0 ? set : ~set;
    }
    const auto rank = static_cast<unsigned>(__popc(peers & ((1U << lane) - 1)));
    if (within && rank == 0) of_warps[own_warp][digit] = static_cast<unsigned>(__popc(peers));
    __syncthreads();
    for (int w = 0; w < warps; ++w) {  // a thread for a digit
      const unsigned n = of_warps[w][threadIdx.x];
      of_warps[w][threadIdx.x] = next[threadIdx.x];
      next[threadIdx.x] += n;
    }
    __syncthreads();
    if (within) {
      const unsigned place = of_warps[own_warp][digit] + rank;
      to.ids[place] = id;
      to.places[place] = from.places[i];
    }
    __syncthreads();
  }
}

// --- sums of runs of equal ids ---

inline constexpr int run_chunk = 16;  ///< sorted places that a thread adds up

template <class T>
struct Runs {
  Keys keys;
  unsigned count;
  const T* dy;
  T* dtable;
  std::int64_t features;
  /// chunks x features: of a run that began in an earlier chunk what is in this one, and of one
  /// that goes on in the next chunk what is in the chunk that it begins in.
  float *continued, *begun;
};

template <class T, int width>
__global__ void __launch_bounds__(map_threads) sum_runs(Runs<T> p) {
  const std::int64_t packs = p.features / width,
                     index = static_cast<std::int64_t>(blockIdx.x) * map_threads + threadIdx.x,
                     chunk = index / packs, f = index % packs * width;
  if (chunk * run_chunk >= p.count) return;
  const auto begin = static_cast<unsigned>(chunk) * run_chunk,
             end = begin + run_chunk < p.count ? begin + run_chunk : p.count;
  bool began_here = begin == 0 || p.keys.ids[begin - 1] != p.keys.ids[begin];
  Floats<width> sum = all_of<width>(0);
  for (unsigned i = begin; i < end; ++i) {
    const unsigned id = p.keys.ids[i];
    const Floats<width> values = load<width>(p.dy + p.keys.places[i] * p.features + f);
#pragma unroll
    for (int k = 0; k < width; ++k) sum[k] += values[k];
    const bool goes_on = i + 1 < p.count && p.keys.ids[i + 1] == id;
    if (goes_on && i + 1 < end) continue;
    if (!began_here) {
      store<width>(p.continued + chunk * p.features + f, sum);
    } else if (goes_on) {
      store<width>(p.begun + chunk * p.features + f, sum);
    } else {
      store<width>(p.dtable + id * p.features + f, sum);
    }
    sum = all_of<width>(0);
    began_here = true;
  }
}

/// Runs over several chunks, each by the one that it begins in.
template <class T, int width>
__global__ void __launch_bounds__(map_threads) join_runs(Runs<T> p) {
  const std::int64_t packs = p.features / width,
                     index = static_cast<std::int64_t>(blockIdx.x) * map_threads + threadIdx.x,
                     chunk = index / packs, f = index % packs * width;
  const std::int64_t next = (chunk + 1) * run_chunk;
  if (next >= p.count) return;
  const unsigned id = p.keys.ids[next - 1], first = static_cast<unsigned>(chunk) * run_chunk;
  if (p.keys.ids[next] != id) return;
  if (p.keys.ids[first] == id && first > 0 && p.keys.ids[first - 1] == id) return;  // began earlier
  Floats<width> sum = load<width>(p.begun + chunk * p.features + f);
#pragma unroll 4
  for (std::int64_t i = next; i < p.count && p.keys.ids[i] == id; i += run_chunk) {
    const Floats<width> more = load<width>(p.continued + i / run_chunk * p.features + f);
#pragma unroll
    for (int k = 0; k < width; ++k) sum[k] += more[k];
  }
  store<width>(p.dtable + id * p.features + f, sum);
}

namespace {

/// Where things lie in the workspace of the gradient.
struct Workspace {
  std::int64_t ids[2], places[2], counts, continued, begun, bytes = 0;

  Workspace(std::int64_t count, std::int64_t blocks, std::int64_t features) {
    const std::int64_t chunks = ceil_divide(count, run_chunk);
    for (int i : {0, 1}) {
      ids[i] = take(count);
      places[i] = take(count);
    }
    counts = take(digits * blocks);
    continued = take(chunks * features);
    begun = take(chunks * features);
  }

 private:
  /// Of 4-byte numbers.
  std::int64_t take(std::int64_t numbers) {
    return std::exchange(bytes, bytes + ceil_divide(numbers * 4, 256) * 256);
  }
};

template <class T>
std::unique_ptr<Plan> plan_backward(const Embedding& p) {
  constexpr int width = width_of<T>();
  const std::int64_t blocks = ceil_divide(p.count, sort_tile);
  const Workspace places(p.count, blocks, p.features);
  const bool whole = p.features % width == 0;
  return own_plan(
      "embedding",
      [=](Context& context, void* const* t, void* workspace) {
        const auto at = [&](std::int64_t offset) { return static_cast<char*>(workspace) + offset; };
        const auto numbers = [&](std::int64_t offset) {
          return reinterpret_cast<unsigned*>(at(offset));
        };
        const auto* dy = static_cast<const T*>(t[1]);
        auto* dtable = static_cast<T*>(t[2]);
        map<T>(context, Zero<T>{dtable}, p.entries * p.features, aligned({dtable}));
        if (p.count == 0 || p.features == 0) return;

        Keys keys{numbers(places.ids[0]), numbers(places.places[0])},
            other{numbers(places.ids[1]), numbers(places.places[1])};
        const auto count = static_cast<unsigned>(p.count), grid = static_cast<unsigned>(blocks);
        map<unsigned>(context, FirstKeys{static_cast<const std::int64_t*>(t[0]), keys}, p.count,
                      false);
        unsigned* counts = numbers(places.counts);
        for (int shift = 0; shift == 0 || (p.entries - 1) >> shift != 0; shift += 8) {
          launch<&count_digits>(grid, sort_threads, context.stream,
                                static_cast<const unsigned*>(keys.ids), count, shift, counts);
          launch<&scan_counts>(1, 1024, context.stream, counts, digits * grid);
          launch<&scatter_keys>(grid, sort_threads, context.stream, keys, other, count, shift,
                                static_cast<const unsigned*>(counts));
          std::swap(keys, other);
        }

        const Runs<T> runs{keys,
                           count,
                           dy,
                           dtable,
                           p.features,
                           reinterpret_cast<float*>(at(places.continued)),
                           reinterpret_cast<float*>(at(places.begun))};
        const auto sum = [&]<int n>() {
          const auto all = static_cast<unsigned>(
              ceil_divide(ceil_divide(p.count, run_chunk) * (p.features / n), map_threads));
          launch<&sum_runs<T, n>>(all, map_threads, context.stream, runs);
          launch<&join_runs<T, n>>(all, map_threads, context.stream, runs);
        };
        whole&& aligned({dy, dtable, workspace}) ? sum.template operator()<width>()
                                                 : sum.template operator()<1>();
      },
      places.bytes);
}

}  // namespace

std::unique_ptr<Plan> plan_embedding(Context&, const Primitive& primitive) {
  const Embedding& p = primitive.embedding;
  if (p.entries < 1 || p.entries > 0x100000000 || p.count > 0x7FFFFFFF) {
    throw Failure(Code::unsupported, "embedding: more than 4294967296 entries or 2147483647 ids");
  }
  return with_element(p.element, [&]<class T>() {
    if (p.direction != Direction::forward) return plan_backward<T>(p);
    constexpr int width = width_of<T>();
    return own_plan("embedding", [=](Context& context, void* const* t, void*) {
      const Gather<T> rule{static_cast<const std::int64_t*>(t[0]), static_cast<const T*>(t[1]),
                           static_cast<T*>(t[2]), p.features};
      map<T>(context, rule, p.count * p.features,
             p.features % width == 0 && aligned({rule.table, rule.y}));
    });
  });
}

}  // namespace forecost::cuda
