#!/usr/bin/env python3
"""Checks that a file on a mount has as many names as on ext4:  links.py FOLDER

Runs as root.
"""
import os
import sys
import unittest

import fine_print
import semantics
from semantics import MountTest, get, put

LINKS = 65000


class Links(MountTest):
    def test_a_file_has_65000_names(self):
        put("f", b"many")
        os.mkdir("d")
        for number in range(LINKS - 1):
            os.link("f", f"d/{number}")
        self.assertEqual(os.stat("f").st_nlink, LINKS)
        fine_print.drop_caches()
        self.assertEqual(os.stat(f"d/{LINKS - 2}").st_nlink, LINKS)
        self.assertEqual(get("d/777"), b"many")
        os.unlink("f")
        for number in range(LINKS - 2):
            os.unlink(f"d/{number}")
        self.assertEqual(os.stat(f"d/{LINKS - 2}").st_nlink, 1)
        self.assertEqual(get(f"d/{LINKS - 2}"), b"many")


if __name__ == "__main__":
    semantics.ROOT = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=1)
