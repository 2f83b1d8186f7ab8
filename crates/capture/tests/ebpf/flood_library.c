// Functions that take no time.
int flood_two(int number) { return number + 2; }
int flood_one(int number) { return number + 1; }
