#include "crash/explorer.h"

#include <array>
#include <set>
#include <utility>

#include "crash/medium.h"
#include "crash/verify.h"
#include "device/power_cut.h"

namespace lazyfs::crash {
namespace {

using device::Op;
using device::Recording;

// Forwards to another Choice and records the selections. Two states with the same selections are
// equal.
class RecordedChoice final : public device::Choice {
 public:
  explicit RecordedChoice(device::Choice& inner) : inner_(inner) {}
  std::uint32_t among(std::uint32_t options) override {
    answers_.push_back(inner_.among(options));
    return answers_.back();
  }
  std::uint32_t among_positions(std::uint32_t options) override {
    answers_.push_back(inner_.among_positions(options));
    return answers_.back();
  }
  const std::vector<std::uint32_t>& answers() const { return answers_; }

 private:
  device::Choice& inner_;
  std::vector<std::uint32_t> answers_;
};

// Keeps the first change and loses all others. The first selection is the position of a write
// pointer.
class KeepFirst final : public device::Choice {
 public:
  std::uint32_t among(std::uint32_t options) override {
    return std::exchange(is_first_, false) ? 0 : options - 1;
  }

 private:
  bool is_first_ = true;
};

// Keeps every change but one. A transaction that is whole but for one block must not count.
class LoseOne final : public device::Choice {
 public:
  explicit LoseOne(std::uint64_t index) : left_(index) {}
  std::uint32_t among(std::uint32_t options) override { return left_-- == 0 ? options - 1 : 0; }

 private:
  std::uint64_t left_;
};
constexpr std::uint32_t kLoseOneStates = 2;
constexpr std::uint32_t kLoseTailsStates = 2;

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15ull + b;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  return x ^ (x >> 31);
}

std::string text_of_cut(const Recording& recording, std::size_t from, std::size_t op_count,
                        const std::vector<std::uint32_t>& answers) {
  std::string text = "power cut after op " + std::to_string(op_count) + " of " +
                     std::to_string(recording.ops.size()) + "; the last ops:\n";
  for (std::size_t i = std::max(from, op_count - std::min<std::size_t>(op_count, 12)); i < op_count;
       ++i) {
    text += "    " + std::to_string(i) + " " + to_string(recording.ops[i]) + "\n";
  }
  text += "  selections for unflushed ops:";
  for (const std::uint32_t answer : answers) text += " " + std::to_string(answer);
  return text + "\n";
}

class Explorer {
 public:
  Explorer(const History& history, const ExploreOptions& options)
      : history_(history), options_(options) {}

  Explored run() {
    const Recording& recording = history_.recording;
    explored_.op_counts = count_ops(recording, history_.first);
    for (std::size_t n = history_.first; n <= recording.ops.size() && may_continue(); ++n) {
      oracle_ = [&](const Observation& found) { return history_.differences(n, found); };
      cut(recording, history_.first, n, mixed(options_.seed, n), options_.recovery_cuts);
    }
    return std::move(explored_);
  }

 private:
  bool may_continue() const { return !explored_.failure && explored_.states < options_.max_states; }

  // Tries all choices at one moment. At most `recovery_cuts` more power cuts may follow.
  void cut(const Recording& recording, std::size_t first, std::size_t op_count,
           std::uint64_t seed, std::uint32_t recovery_cuts) {
    std::set<std::vector<std::uint32_t>> seen;
    device::KeepAll keep_all;
    device::LoseAll lose_all;
    KeepFirst keep_first;
    const std::array<device::Choice*, 3> always{&keep_all, &lose_all, &keep_first};
    std::size_t selections = 1;  // of the state in which everything was kept
    const std::size_t lose_one_end = always.size() + kLoseOneStates;
    const std::size_t given = lose_one_end + kLoseTailsStates;
    for (std::uint32_t i = 0; i < options_.choices + given && may_continue(); ++i) {
      device::RandomChoice random(mixed(seed, i));
      LoseOne lose_one(mixed(seed, ~std::uint64_t{i}) % selections);
      device::LoseTails lose_tails(mixed(seed, i));
      device::Choice& some = i < lose_one_end ? static_cast<device::Choice&>(lose_one) : lose_tails;
      device::Choice& other = i < given ? some : random;
      RecordedChoice choice(i < always.size() ? *always[i] : other);
      const auto device = after_power_cut(recording, op_count, choice);
      if (i == 0) selections = std::max<std::size_t>(choice.answers().size(), 1);
      if (!seen.insert(choice.answers()).second) continue;
      const std::size_t depth = text_.size();
      text_ += text_of_cut(recording, first, op_count, choice.answers());
      const std::uint64_t state_seed = mixed(seed, i);
      if (recovery_cuts == 0 || mixed(state_seed, 2) % options_.recovery_cut_every != 0) {
        try_state(*device, state_seed, recovery_cuts);
      } else if (i == 0 && mixed(state_seed, 3) % 2 == 0) {
        const auto end = recording.ops.begin() + static_cast<std::ptrdiff_t>(op_count);
        text_ += "  the daemon is killed; the power is cut later:\n";
        cut_recovery(*device, {recording.ops.begin(), end}, state_seed, recovery_cuts);
      } else {
        cut_recovery(*device, medium_of(*device), state_seed, recovery_cuts);
      }
      text_.resize(depth);
    }
  }

  void count(std::uint32_t recovery_cuts) {
    ++explored_.states;
    if (recovery_cuts < options_.recovery_cuts) ++explored_.cut_in_recovery;
  }

  void note(std::vector<std::string> problems) {
    if (!problems.empty()) explored_.failure = Failure{text_, std::move(problems)};
  }

  void try_state(device::MemoryDevice& device, std::uint64_t seed, std::uint32_t recovery_cuts) {
    count(recovery_cuts);
    const bool also_use = mixed(seed, 1) % options_.use_every == 0;
    if (also_use) ++explored_.used;
    note(verify_state(device, device, oracle_, also_use));
  }

  // Cuts the power during the mount of the state, too. `before` are the ops that lead to the state;
  // a later power cut may still lose those that are not flushed.
  void cut_recovery(device::MemoryDevice& device, std::vector<Op> before, std::uint64_t seed,
               std::uint32_t recovery_cuts) {
    count(recovery_cuts);
    device::RecordingDevice recorded(device);
    const std::size_t readable = recorded.op_count(), first = before.size();
    note(verify_state(device, recorded, oracle_, false));
    Recording recording = recorded.recording();
    begin_with_medium(recording, readable, std::move(before));
    for (std::size_t n = first; n <= recording.ops.size() && may_continue(); ++n) {
      cut(recording, first, n, mixed(seed, n), recovery_cuts - 1);
    }
  }

  const History& history_;
  const ExploreOptions& options_;
  Oracle oracle_;     // for the current moment
  std::string text_;  // the power cuts that led to the current state
  Explored explored_;
};

Explored explore_once(const Image& image, const Workload& workload, const RunOptions& run_options,
                      const ExploreOptions& options) {
  const Trace trace = run(image, workload, run_options);
  if (trace.problems.empty()) return explore(trace, options);
  Explored explored;
  explored.failure = Failure{"without a power cut", trace.problems};
  return explored;
}

}  // namespace

std::string to_string(const Failure& failure) {
  std::string text = "  " + failure.where;
  for (const std::string& problem : failure.problems) text += "  => " + problem + "\n";
  return text;
}

Explored explore(const History& history, const ExploreOptions& options) {
  return Explorer(history, options).run();
}

Explored explore(const Trace& trace, const ExploreOptions& options) {
  const auto differences = [&](std::size_t op_count, const Observation& found) {
    return trace.differences(trace.possible(op_count), found);
  };
  return explore(History{trace.recording, trace.first, differences}, options);
}

Outcome explore(const Image& image, const Workload& workload, const RunOptions& run_options,
                const ExploreOptions& options) {
  Outcome outcome{explore_once(image, workload, run_options, options), workload};
  if (!outcome.explored.failure) return outcome;
  const std::uint64_t states = outcome.explored.states;
  // Removes operations from the end first, because the last ones matter most. Repeats until no
  // operation can be removed.
  for (bool shrunk = true; shrunk;) {
    shrunk = false;
    for (std::size_t i = outcome.minimal.size(); i-- > 0;) {
      Workload shorter = outcome.minimal;
      shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(i));
      Explored explored = explore_once(image, shorter, run_options, options);
      if (!explored.failure) continue;
      outcome = {std::move(explored), std::move(shorter)};
      shrunk = true;
    }
  }
  outcome.explored.states = states;
  return outcome;
}

std::string to_string(const Outcome& outcome, const ExploreOptions& options) {
  if (!outcome.explored.failure) return "";
  return "LAZYFS_SEED=" + std::to_string(options.seed) + ", the shortest workload that fails:\n" +
         to_string(outcome.minimal) + to_string(*outcome.explored.failure);
}

}  // namespace lazyfs::crash
