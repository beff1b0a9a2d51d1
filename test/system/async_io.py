"""Asynchronous I/O by the kernel's system calls, for tests: Python does not have them."""
import ctypes
import mmap
import os
import platform

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
SETUP, DESTROY, GETEVENTS, SUBMIT = {
    "x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}[platform.machine()]
PWRITE = 1


class Request(ctypes.Structure):
    """struct iocb."""
    _fields_ = [("data", ctypes.c_uint64), ("key", ctypes.c_uint32),
                ("rw_flags", ctypes.c_uint32), ("opcode", ctypes.c_uint16),
                ("priority", ctypes.c_int16), ("file", ctypes.c_uint32),
                ("buffer", ctypes.c_uint64), ("length", ctypes.c_uint64),
                ("offset", ctypes.c_int64), ("reserved", ctypes.c_uint64),
                ("flags", ctypes.c_uint32), ("event_file", ctypes.c_uint32)]


class Event(ctypes.Structure):
    """struct io_event."""
    _fields_ = [("data", ctypes.c_uint64), ("request", ctypes.c_uint64),
                ("result", ctypes.c_int64), ("result2", ctypes.c_int64)]


def call(*arguments):
    result = LIBC.syscall(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def aligned(data):
    """A buffer aligned to a page, for O_DIRECT."""
    buffer = mmap.mmap(-1, len(data))
    buffer[:] = data
    return buffer


class Queue:
    """An AIO context."""

    def __init__(self, depth=64):
        self.context = ctypes.c_ulong(0)
        call(SETUP, depth, ctypes.byref(self.context))

    def close(self):
        call(DESTROY, self.context)

    def write(self, file, data, offsets):
        """Writes `data` at each of the offsets in parallel, and waits for all writes."""
        buffer = aligned(data)
        view = (ctypes.c_char * len(data)).from_buffer(buffer)
        requests = [Request(opcode=PWRITE, file=file, buffer=ctypes.addressof(view),
                            length=len(data), offset=offset) for offset in offsets]
        count = len(requests)
        pointers = (ctypes.POINTER(Request) * count)(*map(ctypes.pointer, requests))
        if call(SUBMIT, self.context, ctypes.c_long(count), pointers) != count:
            raise OSError("not all requests were taken")
        events = (Event * count)()
        call(GETEVENTS, self.context, ctypes.c_long(count), ctypes.c_long(count), events, None)
        del view
        for event in events:
            if event.result != len(data):
                raise OSError(max(0, -event.result), f"wrote {event.result}")
