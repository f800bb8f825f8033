"""What all of the simulator stands on: arrays, masks, arithmetic, settings, words."""
