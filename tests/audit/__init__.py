"""What this project depends on, looked over by `make audit` and `make lint`: pinned whole, under licences that are
known, and without known holes where somebody can be asked.
"""
