"""Everything that chapter 08 adds to the package."""
