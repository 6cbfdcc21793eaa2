"""Everything that chapter 02 adds to the package."""
