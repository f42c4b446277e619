# Writes the files that the tests read, with NumPy (1.24.2 wrote those here): python3 make.py
import numpy as np
from numpy.lib import format

x = np.arange(6).reshape(3, 2)
for t in "<f4 >f4 <f8 >f8 |i1 <i2 >i2 <i4 <i8 >i8 |u1 <u2 >u2 <u4 >u4 <u8 >u8 <f2".split():
    np.save({"<": "little", ">": "big", "|": "one"}[t[0]] + "_" + t[1:], x.astype(t))
np.save("bool", x % 2 == 1)
np.save("big_c8", (x + 10j).astype(">c8"))
np.save("little_c16", x + 10j)
np.save("images", np.arange(4 * 2 * 3, dtype=np.uint8).reshape(4, 2, 3))
np.save("labels", np.array([3, 1, 4, 1]))
np.save("empty", np.zeros((0, 3), np.float32))
np.save("nothing", np.zeros((3, 0), np.float32))
np.save("scalar", np.float32(7))
np.save("fortran", np.asfortranarray(x))
np.save("fortran_vector", np.asfortranarray(np.arange(3).reshape(3, 1)))
np.save("objects", np.array([{}, None], dtype=object), allow_pickle=True)
np.save("strings", np.array(["a", "bcd"]))
np.save("bytes", np.array([b"a", b"bcd"]))
np.save("records", np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")]))
np.save("dates", np.array(["2020-01-01"], dtype="datetime64[D]"))
for v in (1, 2, 3):
    with open(f"version{v}.npy", "wb") as f:
        format.write_array(f, x.astype("<i4"), version=(v, 0))
np.savez("stored", images=np.arange(24, dtype=np.uint8).reshape(4, 2, 3), labels=np.array([3, 1, 4, 1]))
np.savez_compressed("deflated", images=np.arange(24, dtype=np.uint8).reshape(4, 2, 3), labels=np.array([3, 1, 4, 1]))
