"""The qualitative analysis of Cho et al. 2014 (section 4.3), with quantitative measures."""
