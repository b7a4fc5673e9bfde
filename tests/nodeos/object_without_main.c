/* No program: it has no main function. */
int something_else(void)
{
    return 0;
}
