"""Everything that chapter 03 brings to the package."""
