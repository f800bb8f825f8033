"""Products of float16 and bfloat16, summed in float32, as a ladder of one file a step."""
