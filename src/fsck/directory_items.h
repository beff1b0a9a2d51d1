// Checks the names of one directory: each entry is in both its places, under the right hash, and
// once.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "fsck/directory_entries.h"

namespace lazyfs::fsck {

// begin(), then the directory's items in the order of their keys, then end(). The names that stay
// are added to Context::names.
class DirectoryItems {
 public:
  explicit DirectoryItems(Context& context) : c_(context) {}

  void begin(InodeNo directory, const std::optional<InodeRecord>& record);
  void names(const meta::Item& item);      // kDentryName
  void by_cookie(const meta::Item& item);  // kDentrySeq
  // Compares the directory's counters. A repair corrects them once all names are right.
  void end(const InodeRecord& record);

 private:
  void rewrite(const meta::Item& item, const std::vector<DentryRecord>& entries);
  void move(const DentryRecord& entry);
  std::optional<DentryRecord> find(const std::string& name);
  void count(const DentryRecord& entry);
  void one_name(DentryRecord entry);
  void add_twin(DentryRecord entry, bool is_cookie_taken);

  DirectoryNames directory() const { return {no_, seed_}; }
  // Whether the search for the name reaches the item (N1 and N2 of NameItems).
  bool is_in_reach(const DentryRecord& entry, std::uint64_t offset) const;

  Context& c_;
  InodeNo no_;
  std::uint64_t seed_ = 0;
  std::optional<std::uint64_t> next_cookie_;
  std::uint64_t names_ = 0, subdirectories_ = 0;
  // The chain of consecutive name items up to the last one that has passed by and remains.
  std::uint64_t chain_first_ = 0;
  std::optional<std::uint64_t> chain_last_;
  std::set<std::string> chain_names_;
  std::map<std::string, DentryRecord> moved_;  // names that were under wrong hashes
};

}  // namespace lazyfs::fsck
