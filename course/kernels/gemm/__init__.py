"""Matrix products: of float32 (`float32`), of float16 and bfloat16 (`half`, with a file a step)."""
