"""What theory says in closed form: delays, normal laws, least norms, rounding of sums."""
