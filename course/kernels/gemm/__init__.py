"""Products of matrices: of float32 (`float32`), of float16 and bfloat16 (`half`), a file a step."""
