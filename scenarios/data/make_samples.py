"""Writes llava-mix.jsonl: 600 samples that look like a visual-instruction mix.

The kinds and their shares are those of LLaVA-1.5's fine-tuning mix of 665,000 samples (Liu et al., "Improved Baselines with
Visual Instruction Tuning", arXiv 2310.03744, the appendix's table of the data), joined to five and rounded:

  kind            share  image                                                      text tokens, median (sigma)
  chat            6 %    none (ShareGPT, 40k)                                       900 (0.8), at most 2048
  instruction     24 %   COCO: longest side 640, the other 360 ... 640 (158k)       330 (0.5)
  question        35 %   COCO and Visual Genome: 640x480, 500x375 and upright       130 (0.7)
                         (VQAv2, GQA, OKVQA, A-OKVQA: 230k)
  text in images  15 %   OpenImages at 1024x768 and upright, book covers 330x500    150 (0.5)
                         (OCR-VQA, TextCaps: 102k)
  region          20 %   COCO and Visual Genome, many short turns (134k)            400 (0.6)

Sizes are those that the named collections are known for; lengths of text are assumed, log-normal, not measured. One sample
in 50 is a document of 2 ... 5 pages of 1240x1754 (150 dpi A4), which that mix does not have, so that there is something to
balance. Random numbers are of Python's Mersenne Twister, seed 665; the same file comes out every time.

  python3 scenarios/data/make_samples.py > scenarios/data/llava-mix.jsonl
"""

import json
import random

random.seed(665)


def length(median, sigma, most=4096):
    return max(4, min(most, round(random.lognormvariate(0, sigma) * median)))


def photograph():
    """COCO keeps the longest side at 640, Visual Genome has many of 500."""
    longest, other = random.choice([(640, 480), (640, 427), (640, random.randint(360, 640)), (500, 375)])
    return [longest, other] if random.random() < 0.7 else [other, longest]


def scan():
    if random.random() < 0.8:
        return [random.randint(300, 360), random.randint(460, 500)]
    return random.choice([[1024, 768], [768, 1024], [1024, 683]])


KINDS = [(6, None, (900, 0.8, 2048)), (24, photograph, (330, 0.5)), (35, photograph, (130, 0.7)), (15, scan, (150, 0.5)), (20, photograph, (400, 0.6))]

for _ in range(600):
    if random.random() < 1 / 50:
        sample = {"text_tokens": length(600, 0.5), "images": [[1240, 1754]] * random.randint(2, 5)}
    else:
        _, picture, text = random.choices(KINDS, weights=[kind[0] for kind in KINDS])[0]
        sample = {"text_tokens": length(*text)}
        if picture is not None:
            sample["images"] = [picture()]
    print(json.dumps(sample))
