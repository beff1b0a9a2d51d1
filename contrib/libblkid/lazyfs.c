/*
 * Probe of libblkid for lazyfs on plain block devices: the identification block that lies 64 KiB
 * after the start of the device (docs/format.md of lazyfs, section 1).
 *
 * This file may be redistributed under the terms of the
 * GNU Lesser General Public License.
 */

#include "superblocks.h"
#include "crc32c.h"

#define LAZYFS_OFFSET		65536
#define LAZYFS_BLOCK_SIZE	4096
#define LAZYFS_CSUM_START	12

/* all numbers are little-endian */
struct lazyfs_identity {
	uint8_t		magic[8];
	uint32_t	csum;			/* crc32c of the rest of the block */
	uint32_t	feature_compat;
	uint32_t	feature_ro_compat;
	uint32_t	feature_incompat;
	uint32_t	block_size;
	uint32_t	reserved1;
	uint8_t		uuid[16];
	uint8_t		label[64];		/* UTF-8, then zeros */
	uint64_t	volume_size;		/* bytes of the device when it was made or grown */
	uint64_t	band_size;
	uint32_t	band_count;
	uint32_t	super_band[2];
	uint32_t	reserved2;
	uint64_t	created;
	uint64_t	generation;
	/* up to LAZYFS_BLOCK_SIZE: room for later features */
} __attribute__((packed));

static int probe_lazyfs(blkid_probe pr,
			const struct blkid_idmag *mag __attribute__((__unused__)))
{
	const struct lazyfs_identity *id;
	const unsigned char *block;
	uint32_t csum;

	block = blkid_probe_get_buffer(pr, LAZYFS_OFFSET, LAZYFS_BLOCK_SIZE);
	if (!block)
		return errno ? -errno : BLKID_PROBE_NONE;
	id = (const struct lazyfs_identity *) block;

	csum = ~crc32c(~0U, block + LAZYFS_CSUM_START, LAZYFS_BLOCK_SIZE - LAZYFS_CSUM_START);
	if (!blkid_probe_verify_csum(pr, csum, le32_to_cpu(id->csum)))
		return BLKID_PROBE_NONE;

	if (id->label[0])
		blkid_probe_set_label(pr, id->label, sizeof(id->label));
	blkid_probe_set_uuid(pr, id->uuid);
	blkid_probe_set_version(pr, "1");
	blkid_probe_set_fssize(pr, le64_to_cpu(id->volume_size));
	blkid_probe_set_fsblocksize(pr, le32_to_cpu(id->block_size));
	blkid_probe_set_block_size(pr, le32_to_cpu(id->block_size));
	return BLKID_PROBE_OK;
}

const struct blkid_idinfo lazyfs_idinfo =
{
	.name		= "lazyfs",
	.usage		= BLKID_USAGE_FILESYSTEM,
	.probefunc	= probe_lazyfs,
	.minsz		= 2 * 1024 * 1024,
	.magics		=
	{
		{
			.magic	= "LAZYFS\0\1",
			.len	= 8,
			.kboff	= LAZYFS_OFFSET / 1024
		},
		{ NULL }
	}
};
