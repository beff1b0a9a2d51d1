#include "crash/violations.h"

#include <algorithm>
#include <functional>
#include <map>

#include "crash/op_counts.h"

namespace lazyfs::crash {
namespace {

using device::Op;

// Makes a flush cover nothing.
void annul(std::vector<Op>& ops, std::size_t i) {
  ops[i].covers = 0;
}

// Annuls each flush of the workload that `is_meant` accepts. Its arguments are the last append
// before the flush and the next append after it; nullptr if there is none.
void annul_flushes(Trace& trace,
                   const std::function<bool(const Op* before, const Op* after)>& is_meant) {
  std::vector<Op>& ops = trace.recording.ops;
  const Op* before = nullptr;
  for (std::size_t i = trace.first; i < ops.size(); ++i) {
    if (ops[i].kind == Op::Kind::kAppend) before = &ops[i];
    if (ops[i].kind != Op::Kind::kFlush) continue;
    const auto after = std::find_if(ops.begin() + static_cast<std::ptrdiff_t>(i), ops.end(),
                                    [](const Op& op) { return op.kind == Op::Kind::kAppend; });
    if (is_meant(before, after == ops.end() ? nullptr : &*after)) annul(ops, i);
  }
}

// Moves op `from` forward to index `to`. The ops between move back by one.
void move_forward(Trace& trace, std::size_t from, std::size_t to) {
  std::vector<Op>& ops = trace.recording.ops;
  const auto begin = ops.begin();
  const auto at = [&](std::size_t i) { return begin + static_cast<std::ptrdiff_t>(i); };
  std::rotate(at(to), at(from), at(from + 1));
  const auto shift = [&](std::size_t& count) {
    if (count > to && count <= from) ++count;
  };
  for (Op& op : ops) shift(op.covers);
  for (Trace::Step& step : trace.steps) {
    shift(step.begin);
    shift(step.end);
  }
}

// Moves each reset of a band with `content` before the transaction that precedes the reset.
Trace with_early_resets(Trace trace, Content content) {
  std::vector<Op>& ops = trace.recording.ops;
  std::map<BandId, Content> contents;
  std::size_t transaction = 0;  // index of the first op of the last transaction
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    if (op.kind == Op::Kind::kAppend) {
      if (op.at.rba == 0) contents[op.at.band] = content_of(op);
      const bool begins = content_of(op) == Content::kLog &&
                          (i == 0 || ops[i - 1].kind != Op::Kind::kAppend);
      if (begins && i >= trace.first) transaction = i;
    }
    const bool is_meant = op.kind == Op::Kind::kReset && transaction > 0 &&
                          contents.contains(op.at.band) && contents[op.at.band] == content;
    if (is_meant) move_forward(trace, i, transaction++);
  }
  return trace;
}

}  // namespace

Trace without_flush_of_data(Trace trace) {
  annul_flushes(trace, [](const Op* before, const Op* after) {
    return before && after && content_of(*before) == Content::kData &&
           content_of(*after) == Content::kLog;
  });
  return trace;
}

Trace with_early_resets_of_data(Trace trace) {
  return with_early_resets(std::move(trace), Content::kData);
}

Trace with_early_resets_of_log(Trace trace) {
  return with_early_resets(std::move(trace), Content::kLog);
}

Trace without_flush_of_log(Trace trace) {
  annul_flushes(trace, [](const Op* before, const Op*) {
    return before && content_of(*before) == Content::kLog;
  });
  return trace;
}

Trace without_flush_of_superblock(Trace trace) {
  annul_flushes(trace, [](const Op* before, const Op*) {
    return before && content_of(*before) == Content::kSuperblock;
  });
  return trace;
}

}  // namespace lazyfs::crash
