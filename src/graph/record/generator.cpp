// The thread's own random generator and generators of users.
#include "graph/record/generator.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "platform/thread_local.h"
#include "volta/random.h"

namespace volta {
namespace graph {

GeneratorState& random_state() {
  // Each thread draws different numbers; the first thread draws the same ones in every run.
  static std::atomic<std::uint64_t> threads{0};
  VOLTA_INITIAL_EXEC thread_local GeneratorState state{
      0x5EED + 0x9E3779B97F4A7C15u * threads.fetch_add(1), 0};
  return state;
}

namespace {

DrawnFrom*& innermost_scope() {
  VOLTA_INITIAL_EXEC static constinit thread_local DrawnFrom* innermost = nullptr;
  return innermost;
}

GeneratorState advanced(GeneratorState& state, std::int64_t words) {
  const GeneratorState before = state;
  state.offset += (static_cast<std::uint64_t>(words) + 3) / 4;
  return before;
}

GeneratorState exchanged(RandomStream& stream, GeneratorState state) {
  const std::lock_guard guard(stream.lock);
  return std::exchange(stream.state, state);
}

}  // namespace

GeneratorState take_random(std::int64_t words, const Generator& generator) {
  const std::shared_ptr<RandomStream>& stream = RandomStream::of(generator);
  if (stream == nullptr) return advanced(random_state(), words);
  const std::lock_guard guard(stream->lock);
  for (DrawnFrom* scope = innermost_scope(); scope != nullptr; scope = scope->outer_) {
    if (std::none_of(scope->streams.begin(), scope->streams.end(),
                     [&](const StreamPosition& drawn) { return drawn.stream == stream; })) {
      scope->streams.push_back({stream, stream->state});
    }
  }
  return advanced(stream->state, words);
}

DrawnFrom::DrawnFrom() : outer_(std::exchange(innermost_scope(), this)) {}
DrawnFrom::~DrawnFrom() { innermost_scope() = outer_; }

Repositioned::Repositioned(GeneratorState own, const std::vector<StreamPosition>& streams)
    : own_(std::exchange(random_state(), own)), streams_(streams) {
  for (StreamPosition& position : streams_)
    position.state = exchanged(*position.stream, position.state);
}
Repositioned::~Repositioned() {
  random_state() = own_;
  for (const StreamPosition& position : streams_) exchanged(*position.stream, position.state);
}

}  // namespace graph

Generator::Generator(std::uint64_t seed) : stream_(std::make_shared<graph::RandomStream>()) {
  stream_->state = {seed, 0};
}

void Generator::manual_seed(std::uint64_t seed) const { set_state({seed, 0}); }

GeneratorState Generator::state() const {
  if (stream_ == nullptr) return graph::random_state();
  const std::lock_guard guard(stream_->lock);
  return stream_->state;
}

void Generator::set_state(GeneratorState state) const {
  if (stream_ == nullptr) {
    graph::random_state() = state;
  } else {
    graph::exchanged(*stream_, state);
  }
}

Generator Generator::clone() const {
  Generator copy(0);
  copy.set_state(state());
  return copy;
}

void manual_seed(std::uint64_t seed) { graph::random_state() = {seed, 0}; }

}  // namespace volta
