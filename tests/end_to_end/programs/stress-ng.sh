# Each stressor does a little of what it does and looks at what came of it.
for name in brk cap env fork futex kcmp mlock mlockmany pidfd rmap schedpolicy sem-sysv sigfd \
    sigq timerfd; do
    stress-ng --quiet --$name 1 --$name-ops 2 --verify --timeout 1 >report 2>&1
    echo "$name $?"
    grep fail: report
done
exit 0
