"""Everything that chapter 00 brings to the package."""
