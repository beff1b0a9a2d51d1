#include "crash/explorer.h"

#include <array>
#include <set>
#include <utility>

#include "crash/judge.h"
#include "crash/medium.h"
#include "device/power_cut.h"

namespace lazyfs::crash {
namespace {

using device::Op;
using device::Recording;

// Passes the questions on and remembers the answers: two states with the same answers are one.
class Noted final : public device::Choice {
 public:
  explicit Noted(device::Choice& inner) : inner_(inner) {}
  std::uint32_t among(std::uint32_t options) override {
    answers_.push_back(inner_.among(options));
    return answers_.back();
  }
  const std::vector<std::uint32_t>& answers() const { return answers_; }

 private:
  device::Choice& inner_;
  std::vector<std::uint32_t> answers_;
};

// The first question is where a write pointer stands: it has moved, and all else was lost.
class KeepFirst final : public device::Choice {
 public:
  std::uint32_t among(std::uint32_t options) override {
    return std::exchange(is_first_, false) ? 0 : options - 1;
  }

 private:
  bool is_first_ = true;
};

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15ull + b;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  return x ^ (x >> 31);
}

std::string words_of(const Recording& recording, std::size_t from, std::size_t op_count,
                     const std::vector<std::uint32_t>& answers) {
  std::string text = "power cut after op " + std::to_string(op_count) + " of " +
                     std::to_string(recording.ops.size()) + "; the last ones:\n";
  for (std::size_t i = std::max(from, op_count - std::min<std::size_t>(op_count, 12)); i < op_count;
       ++i) {
    text += "    " + std::to_string(i) + " " + to_string(recording.ops[i]) + "\n";
  }
  text += "  what was not flushed is decided by:";
  for (const std::uint32_t answer : answers) text += " " + std::to_string(answer);
  return text + "\n";
}

class Explorer {
 public:
  Explorer(const History& history, const ExploreOptions& options)
      : history_(history), options_(options) {}

  Explored run() {
    const Recording& recording = history_.recording;
    explored_.landmarks = landmarks_of(recording, history_.first);
    for (std::size_t n = history_.first; n <= recording.ops.size() && goes_on(); ++n) {
      oracle_ = [&](const Observation& found) { return history_.differences(n, found); };
      cut(recording, history_.first, n, mixed(options_.seed, n), options_.relapses);
    }
    return std::move(explored_);
  }

 private:
  bool goes_on() const { return !explored_.failure && explored_.states < options_.max_states; }

  // All choices at one moment. `relapses`: how many more power cuts may follow.
  void cut(const Recording& recording, std::size_t first, std::size_t op_count,
           std::uint64_t seed, std::uint32_t relapses) {
    std::set<std::vector<std::uint32_t>> seen;
    device::KeepAll keep_all;
    device::LoseAll lose_all;
    KeepFirst keep_first;
    const std::array<device::Choice*, 3> always{&keep_all, &lose_all, &keep_first};
    for (std::uint32_t i = 0; i < options_.choices + always.size() && goes_on(); ++i) {
      device::RandomChoice random(mixed(seed, i));
      Noted choice(i < always.size() ? *always[i] : random);
      const auto device = after_power_cut(recording, op_count, choice);
      if (!seen.insert(choice.answers()).second) continue;
      const std::size_t depth = words_.size();
      words_ += words_of(recording, first, op_count, choice.answers());
      const std::uint64_t state_seed = mixed(seed, i);
      if (relapses == 0 || mixed(state_seed, 2) % options_.relapse_every != 0) {
        try_state(*device, state_seed, relapses);
      } else if (i == 0 && mixed(state_seed, 3) % 2 == 0) {
        const auto end = recording.ops.begin() + static_cast<std::ptrdiff_t>(op_count);
        words_ += "  the daemon is killed, and the power goes later:\n";
        relapse(*device, {recording.ops.begin(), end}, state_seed, relapses);
      } else {
        relapse(*device, medium_of(*device), state_seed, relapses);
      }
      words_.resize(depth);
    }
  }

  void count(std::uint32_t relapses) {
    ++explored_.states;
    if (relapses < options_.relapses) ++explored_.relapsed;
  }

  void note(std::vector<std::string> problems) {
    if (!problems.empty()) explored_.failure = Failure{words_, std::move(problems)};
  }

  void try_state(device::Device& device, std::uint64_t seed, std::uint32_t relapses) {
    count(relapses);
    const bool use_on = mixed(seed, 1) % options_.use_every == 0;
    if (use_on) ++explored_.used;
    note(judge(device, oracle_, use_on));
  }

  // The mount of the state is cut short too. `before` are ops that lead to it; what of them is not
  // flushed may still be lost.
  void relapse(device::Device& device, std::vector<Op> before, std::uint64_t seed,
               std::uint32_t relapses) {
    count(relapses);
    device::RecordingDevice recorded(device);
    const std::size_t readable = recorded.op_count(), first = before.size();
    note(judge(recorded, oracle_, false));
    Recording recording = recorded.recording();
    begin_with_medium(recording, readable, std::move(before));
    for (std::size_t n = first; n <= recording.ops.size() && goes_on(); ++n) {
      cut(recording, first, n, mixed(seed, n), relapses - 1);
    }
  }

  const History& history_;
  const ExploreOptions& options_;
  Oracle oracle_;  // of the present moment
  std::string words_;              // the power cuts that have led to the state
  Explored explored_;
};

Explored explore_once(const Image& image, const Workload& workload, const RunOptions& run_options,
                      const ExploreOptions& options) {
  const Trace trace = run(image, workload, run_options);
  if (trace.problems.empty()) return explore(trace, options);
  Explored explored;
  explored.failure = Failure{"no power was cut", trace.problems};
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

Verdict explore(const Image& image, const Workload& workload, const RunOptions& run_options,
                const ExploreOptions& options) {
  Verdict verdict{explore_once(image, workload, run_options, options), workload};
  if (!verdict.explored.failure) return verdict;
  const std::uint64_t states = verdict.explored.states;
  // From the end, as what came last matters most; once more around when anything could go.
  for (bool shrunk = true; shrunk;) {
    shrunk = false;
    for (std::size_t i = verdict.minimal.size(); i-- > 0;) {
      Workload shorter = verdict.minimal;
      shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(i));
      Explored explored = explore_once(image, shorter, run_options, options);
      if (!explored.failure) continue;
      verdict = {std::move(explored), std::move(shorter)};
      shrunk = true;
    }
  }
  verdict.explored.states = states;
  return verdict;
}

std::string to_string(const Verdict& verdict, const ExploreOptions& options) {
  if (!verdict.explored.failure) return "";
  return "LAZYFS_SEED=" + std::to_string(options.seed) + ", the shortest workload that fails:\n" +
         to_string(verdict.minimal) + to_string(*verdict.explored.failure);
}

}  // namespace lazyfs::crash
