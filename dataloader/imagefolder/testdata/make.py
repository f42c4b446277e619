# Writes the images that the tests read, and what Pillow makes of them (9.4.0 wrote those here): python3 make.py
import numpy as np
from PIL import Image

rng = np.random.default_rng(1)
y, x = np.mgrid[0:23, 0:37]
rgb = np.stack([x * 6, y * 10, (x * y) % 256], 2) + rng.integers(0, 20, (23, 37, 3))
im = Image.fromarray(rgb.clip(0, 255).astype(np.uint8))
alpha = Image.fromarray(((x + y) * 4).astype(np.uint8))

rgba = im.copy()
rgba.putalpha(alpha)
la = im.convert("L")
la.putalpha(alpha)
inputs = {
    "rgb.png": im, "rgba.png": rgba, "gray.png": im.convert("L"), "grayalpha.png": la,
    "palette.png": im.quantize(16), "bit.png": im.convert("1"),
}
for name, image in inputs.items():
    image.save("in_" + name)
    image.convert("RGB").resize((16, 12), Image.BILINEAR).save("squash_" + name)
    image.convert("L").resize((16, 12), Image.BILINEAR).save("brightness_" + name)

# Resize(size), CenterCrop((h, w)) of torchvision
def center(size, h, w):
    iw, ih = im.size
    short, long = min(iw, ih), max(iw, ih)
    nw, nh = (size, size * long // short) if iw <= ih else (size * long // short, size)
    big = im.resize((nw, nh), Image.BILINEAR)
    top, left = int(round((nh - h) / 2.0)), int(round((nw - w) / 2.0))
    return big.crop((left, top, left + w, top + h))

center(16, 14, 13).save("center_16_14_13.png")
center(40, 33, 40).save("center_40_33_40.png")
center(23, 23, 23).save("center_23_23_23.png")
im.resize((90, 5), Image.BILINEAR).save("squash_90_5.png")
im.resize((1, 1), Image.BILINEAR).save("squash_1_1.png")
im.crop((5, 3, 30, 20)).resize((8, 9), Image.BILINEAR).save("box_5_3_30_20_8_9.png")

im = im.resize((74, 46), Image.BICUBIC)
jpegs = {"420": dict(subsampling=2), "422": dict(subsampling=1), "444": dict(subsampling=0), "progressive": dict(progressive=True)}
for name, options in jpegs.items():
    im.save(f"in_{name}.jpg", quality=90, **options)
im.convert("L").save("in_gray.jpg", quality=90)
im.convert("CMYK").save("in_cmyk.jpg", quality=90)
for name in [*jpegs, "gray", "cmyk"]:
    Image.open(f"in_{name}.jpg").convert("RGB").resize((16, 12), Image.BILINEAR).save(f"squash_jpeg_{name}.png")
