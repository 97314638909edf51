"""The playground: a local page on which one draws points and sees what a machine makes of them."""
