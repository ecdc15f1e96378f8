"""Jobs and pods as the commands show and change them."""
