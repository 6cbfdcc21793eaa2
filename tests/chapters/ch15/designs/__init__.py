"""Three GPTs that share no code with the book's, as readers might write them. Each fills in the capstone's adapter."""
