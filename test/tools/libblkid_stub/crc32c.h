/* util-linux' crc32c(): without the inversions before and after. */
#ifndef LAZYFS_TEST_CRC32C_H
#define LAZYFS_TEST_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void* buf, size_t size);

#endif
