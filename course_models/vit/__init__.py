"""A vision transformer, float16: from images to scores of classes.

>>> vit = ViT(*load("vit_base_patch16_224.safetensors"))
>>> scores = vit(read_images(["cat.png"]))
"""

from course_models.vit.network import Graph, ViT
from course_models.vit.shape import TOY, Flags, ViTShape
from course_models.vit.weights import initial, load, save

__all__ = ["TOY", "Flags", "Graph", "ViT", "ViTShape", "initial", "load", "save"]
