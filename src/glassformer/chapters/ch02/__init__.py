"""Everything that chapter 02 brings to the package."""
