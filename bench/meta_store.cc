// Measures the metadata store alone, on a device in memory: `meta_store [ITEMS]`. Prints one figure
// per line.
#include <malloc.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <thread>

#include "bench.h"
#include "device/memory.h"
#include "meta/log/jmap.h"
#include "meta/store/store.h"
#include "tools/command_line.h"

namespace lazyfs::meta {
namespace {

using namespace bench;

template <class F>
void measure(const char* what, std::size_t times, F f) {
  const double begin = now_us();
  for (std::size_t i = 0; i < times; ++i) f(i);
  std::printf("%-56s %10.3f us each\n", what, (now_us() - begin) / static_cast<double>(times));
}

std::unique_ptr<Store> fresh_store(device::Device& device, std::size_t cache_bytes) {
  Superblock superblock;
  for (std::uint32_t i = 0; i < 8; ++i) superblock.log_bands.push_back(BandId{2 + i});
  must(Store::format(device, superblock).has_value(), "format");
  auto store = Store::open(device, {.cache_bytes = cache_bytes});
  must(store.has_value(), "open");
  return std::move(*store);
}

// Makes the items of a new file: an inode, two directory entries, a counter in the parent.
void create_file(Store& store, std::uint64_t inode, std::span<const std::byte> value) {
  Batch batch;
  batch.put({inode, 1, 0}, value.first(80));
  batch.put({1000, 2, inode * 0x9E3779B97F4A7C15ull}, value.first(30));
  batch.put({1000, 3, inode}, value.first(30));
  const std::array<std::int64_t, 4> deltas{1, 1, 1, 1};
  batch.add({1000, 1, 0}, deltas);
  batch.put({1000, 4, 0}, value.first(20));
  must(store.apply(batch).has_value(), "apply");
}

void bench_store(std::size_t items) {
  auto device = device::MemoryDevice::uniform(16, 65536);
  auto store = fresh_store(*device, std::size_t{1} << 30);
  std::vector<std::byte> value(200, std::byte{42});
  std::mt19937_64 random(1);
  const std::uint64_t first = 1u << 20;
  measure("apply: create a file (5 changes), growing tree", items,
          [&](std::size_t i) { create_file(*store, first + i, value); });
  measure("commit", 1, [&](std::size_t) { must(store->commit().has_value(), "commit"); });
  measure("get, random, warm", items, [&](std::size_t) {
    const auto got = store->get({first + random() % items, 1, 0});
    must(got && *got, "get");
  });
  measure("apply: 5 puts replacing, random, warm", items / 4, [&](std::size_t) {
    Batch batch;
    for (int k = 0; k < 5; ++k)
      batch.put({first + random() % items, 1, 0}, std::span(value).first(80));
    value[0] = static_cast<std::byte>(random());
    must(store->apply(batch).has_value(), "apply");
  });
  measure("scan of 100 items", items / 100, [&](std::size_t) {
    must(store->scan({first + random() % (items - 100), 0, 0}, {~0ull, 0, 0}, 100).has_value(),
         "scan");
  });
  measure("commit of one small change", 1000, [&](std::size_t i) {
    create_file(*store, first + items + i, value);
    must(store->commit().has_value(), "commit");
  });
  for (const unsigned threads : {1u, 2u}) {
    std::vector<std::thread> pool;
    const double begin = now_us();
    for (unsigned t = 0; t < threads; ++t) {
      pool.emplace_back([&, t] {
        std::mt19937_64 mine(t);
        for (std::size_t i = 0; i < items; ++i) {
          must(store->get({first + mine() % items, 1, 0}).has_value(), "get");
        }
      });
    }
    for (auto& thread : pool) thread.join();
    std::printf("get, random, warm, %u threads %37.3f us each a thread\n", threads,
                (now_us() - begin) / static_cast<double>(items));
  }
  const StoreStats stats = store->stats();
  std::printf(
      "tree: height %lu, %lu nodes, %lu cached; log %lu of %lu blocks live; %lu transactions, "
      "%lu nodes written, %lu of them cleaned; longest cycle %.1f ms\n",
      stats.tree_height, stats.jmap_entries, stats.nodes_cached, stats.log_live_blocks,
      stats.log_total_blocks, stats.transactions, stats.nodes_written, stats.nodes_cleaned,
      static_cast<double>(stats.commit_ns_max) / 1e6);
  must(store->close().has_value(), "close");
  store.reset();
  measure("open after a clean end", 1, [&](std::size_t) {
    auto opened = Store::open(*device, {});
    must(opened.has_value(), "open");
    store = std::move(*opened);
  });
  measure("get, random, cold (64 MiB of cache)", items / 4, [&](std::size_t) {
    must(store->get({first + random() % items, 1, 0}).has_value(), "get");
  });
}

void bench_jmap(std::size_t entries) {
  const auto before = mallinfo2();
  std::deque<Part> parts;  // outlives the entries
  auto jmap = std::make_unique<Jmap>();
  measure("jmap: assign a new node", entries, [&](std::size_t i) {
    if (i % 4096 == 0) parts.emplace_back(PartAddress{1, 1, Seq{1}}, BandId{1}, 1);
    jmap->assign(NodeNo{i + 1}, {BandId{1}, static_cast<std::uint32_t>(i)}, parts.back());
  });
  const auto after = mallinfo2();
  const double heap = static_cast<double>(after.uordblks + after.hblkhd) -
                      static_cast<double>(before.uordblks + before.hblkhd);
  std::printf("jmap: %zu entries of %zu bytes; heap grew by %.2f bytes an entry (parts included)\n",
              jmap->size(), sizeof(JmapEntry), heap / static_cast<double>(entries));
  std::mt19937_64 random(2);
  measure("jmap: find, random", entries, [&](std::size_t) {
    must(jmap->find(NodeNo{1 + random() % entries}).has_value(), "find");
  });
}

}  // namespace
}  // namespace lazyfs::meta

int main(int argc, char** argv) {
  std::uint64_t items = 400'000;
  lazyfs::CommandLine app("meta_store", "Times of jmap and of the store, in memory.", nullptr);
  app.option("ITEMS", items, "in the store").with_default();
  if (const auto status = app.parse(argc, argv)) return *status;
  lazyfs::meta::bench_jmap(1'000'000);
  lazyfs::meta::bench_store(items);
}
