"""The course's main job as a program: many images, on processes, GPUs and machines."""
