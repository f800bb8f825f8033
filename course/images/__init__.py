"""Images in, SVD factors, images out, and how good they are."""

from course.lazy import face

LARGEST = 200  # megapixels that an image may have: the photographs of today's phones have no more

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "course.images.images": (
            "compression head_mri mse phantom photograph photographs psnr reconstruct ssim svd"
        ),
        "course.images.chosen": "mine",
        "course.images.reading": "load_folder load_image",
    },
)
