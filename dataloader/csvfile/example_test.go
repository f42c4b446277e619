package csvfile_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"strings"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/csvfile"
)

const iris = `sepal_length,sepal_width,petal_length,petal_width,species
5.1,3.5,1.4,0.2,setosa
7.0,3.2,4.7,1.4,versicolor
6.3,3.3,6.0,2.5,virginica
5.8,?,5.1,1.9,virginica
`

func ExampleNew() {
	set, err := csvfile.New(strings.NewReader(iris), int64(len(iris)), "iris.csv", csvfile.Config{Fields: []csvfile.Field{
		{Columns: []string{"species"}, Category: true},
		{Name: "x"}, // all other columns
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	fmt.Println(set.Categories(0))
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 4, OnError: dataloader.SkipErrors})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch.Host(0).Data(), batch.Host(1).Shape())
		for _, s := range batch.Skipped {
			fmt.Println(s.Err)
		}
	}
	// Output:
	// [setosa versicolor virginica]
	// [0 1 2] (3, 4)
	// csvfile: iris.csv: line 5: not a readable CSV file: column "sepal_width": "?" is no float32
}

func ExampleOpen() {
	_, err := csvfile.Open("testdata/none.csv", csvfile.Config{Fields: []csvfile.Field{{Name: "x"}}})
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output: true
}
