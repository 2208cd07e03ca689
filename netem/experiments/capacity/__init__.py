"""The experiment `capacity`: how many clients a GPU serves, by simulation with recorded acceptance."""
