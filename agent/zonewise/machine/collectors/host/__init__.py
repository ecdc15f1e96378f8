"""The machine as a whole: kernel, firmware, virtualisation and related facts."""
