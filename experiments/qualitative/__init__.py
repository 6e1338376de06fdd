"""What a network has learnt: the qualitative analysis of Cho et al. 2014 (section 4.3), and numbers for it."""
