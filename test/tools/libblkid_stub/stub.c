/* What the probe of contrib/libblkid/lazyfs.c calls, over a buffer in memory. */
#include <string.h>

#include "crc32c.h"
#include "superblocks.h"

const unsigned char* blkid_probe_get_buffer(blkid_probe pr, uint64_t off, uint64_t len) {
  errno = 0;
  return off > pr->size || len > pr->size - off ? NULL : pr->bytes + off;
}

int blkid_probe_verify_csum(blkid_probe pr, uint64_t csum, uint64_t expected) {
  (void)pr;
  return csum == expected;
}

int blkid_probe_set_label(blkid_probe pr, const unsigned char* label, size_t len) {
  memset(pr->label, 0, sizeof pr->label);
  memcpy(pr->label, label, len < sizeof pr->label ? len : sizeof pr->label - 1);
  return 0;
}

int blkid_probe_set_uuid(blkid_probe pr, const unsigned char* uuid) {
  memcpy(pr->uuid, uuid, sizeof pr->uuid);
  return 0;
}

int blkid_probe_set_version(blkid_probe pr, const char* version) {
  strncpy(pr->version, version, sizeof pr->version - 1);
  return 0;
}

int blkid_probe_set_fssize(blkid_probe pr, uint64_t size) {
  pr->fssize = size;
  return 0;
}

int blkid_probe_set_fsblocksize(blkid_probe pr, uint32_t block_size) {
  pr->fsblocksize = block_size;
  return 0;
}

int blkid_probe_set_block_size(blkid_probe pr, unsigned block_size) {
  pr->block_size = block_size;
  return 0;
}

uint32_t crc32c(uint32_t crc, const void* buf, size_t size) {
  const unsigned char* byte = buf;
  size_t i;
  int bit;
  for (i = 0; i < size; ++i) {
    crc ^= byte[i];
    for (bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
  }
  return crc;
}
